"""Checks of a user's functions: each is tried before the first step and checked on every call."""

from collections.abc import Callable
from typing import Any

from ...graders import get_grader


def answer_extractor_of(extractor: Any) -> Callable[[str], str | None] | None:
    """Return an answer extractor whose answers are checked on every call.

    Args:
        extractor: A user's function, completion -> its final answer or None; or the name of a
            grader, which stands for the grader's extraction; or None, which is returned.

    Raises:
        TypeError: For an example the function returns neither a text nor None. The returned
            extractor raises this, too.
        ValueError: There is no grader of that name.
    """
    if extractor is None or isinstance(extractor, str):
        return None if extractor is None else get_grader(extractor).extract_answer

    def extract(text: str) -> str | None:
        answer = extractor(text)
        if answer is None or isinstance(answer, str):
            return answer
        raise TypeError(
            f"answer_extractor must return a text, or None without an answer, got {answer!r:.80} "
            "for one completion: return its answer as a text."
        )

    extract(r"The answer is \boxed{4}.")  # a mistake shows before a model is loaded
    return extract


def answer_equivalence_of(equivalence: Any) -> Callable[[str, str], bool] | None:
    """Return an equivalence of answers whose verdicts are checked on every call.

    Args:
        equivalence: A user's function, two answers -> whether they are the same; or the name of a
            grader, which stands for the grader's verdict; or None, which is returned.

    Raises:
        TypeError: For an example the function does not return a truth value. The returned
            equivalence raises this, too.
        ValueError: There is no grader of that name.
    """
    if equivalence is None or isinstance(equivalence, str):
        return None if equivalence is None else get_grader(equivalence).equivalent

    def equivalent(a: str, b: str) -> bool:
        verdict = equivalence(a, b)
        # NumPy and PyTorch have their own types of truth values
        kind = getattr(verdict, "dtype", type(verdict).__name__)
        if str(kind).removeprefix("torch.") == "bool":
            return bool(verdict)
        raise TypeError(
            f"answer_equivalence must return True or False, got {verdict!r:.80} for two answers: "
            "return whether they are the same."
        )

    equivalent("4", "4")  # a mistake shows before a model is loaded
    return equivalent
