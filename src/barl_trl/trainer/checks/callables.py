"""Functions that a user hands to a trainer: tried before the first step, checked on each call."""

from collections.abc import Callable
from typing import Any

from ...graders import get_grader
from ...steps import StepSegmenter, step_ends_of


def answer_extractor_of(given: Any) -> Callable[[str], str | None] | None:
    """Return the answer extractor, or that of a grader's name, with answers that are checked.

    Raises:
        TypeError: It returns something else than a text or None, now or later.
        ValueError: It fails on a text, or there is no grader of that name.
    """
    if given is None or isinstance(given, str):
        return None if given is None else get_grader(given).extract_answer

    def extract(text: str) -> str | None:
        answer = given(text)
        if answer is None or isinstance(answer, str):
            return answer
        raise TypeError(
            f"answer_extractor must return a text, or None without an answer, got {answer!r:.80} "
            "for one completion: return its answer as a text."
        )

    _try("answer_extractor", "one completion", extract, r"The answer is \boxed{4}.")
    return extract


def answer_equivalence_of(given: Any) -> Callable[[str, str], bool] | None:
    """Return the equivalence of answers, or that of a grader's name, with checked verdicts.

    Raises:
        TypeError: It returns something else than a truth value, now or later.
        ValueError: It fails on two answers, or there is no grader of that name.
    """
    if given is None or isinstance(given, str):
        return None if given is None else get_grader(given).equivalent

    def equivalent(a: str, b: str) -> bool:
        verdict = given(a, b)
        # NumPy and PyTorch have truth values of their own
        kind = getattr(verdict, "dtype", type(verdict).__name__)
        if str(kind).removeprefix("torch.") == "bool":
            return bool(verdict)
        raise TypeError(
            f"answer_equivalence must return True or False, got {verdict!r:.80} for two answers: "
            "return whether they are the same."
        )

    _try("answer_equivalence", "two answers", equivalent, "4", "4")
    return equivalent


def try_step_segmenter(given: StepSegmenter | None) -> None:
    """Try a step segmenter on four tokens: it must not fail, and return ends of steps."""
    if given is not None:
        _try("step_segmenter", "token ids", step_ends_of, [0, 1, 2, 3], given)


def _try(name: str, what: str, function: Callable[..., Any], *examples: Any) -> None:
    problem = None
    try:
        function(*examples)
    except Exception as error:
        if str(error).startswith(name):
            raise
        problem = f"{type(error).__name__}: {error}"
    if problem:
        raise ValueError(f"{name} must take {what}, got {problem} for {examples[0]!r}: mend it.")
