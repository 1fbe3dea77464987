r"""Outcome rewards in TRL's reward-function signature, and the names by which recipes use them.

[`accuracy_reward`] has the name of TRL's and is not the same: TRL parses the true answer as it
stands, and a parser given bare `3\pi` reads the number 3. On bare answers, which most data sets
have, it rewards 21 % (CollegeMath) to 76 % (MATH-500) of the correct completions. Here both sides
are boxed first.
"""

import difflib
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .answers import (
    MAX_TRUTH_CHARS,
    answers_equivalent,
    extract_answer,
    truth_answer,
    why_inadmissible,
)

Completion = str | list[dict[str, Any]]
RewardFunc = Callable[..., Sequence[float | None]]


def accuracy_reward(
    completions: Sequence[Completion],
    solution: Sequence[str],
    log_extra: Callable[[str, list], None] | None = None,
    **kwargs,
) -> list[float | None]:
    r"""Reward 1.0 for a completion whose last closed box holds the true answer, 0.0 for any other.

    Args:
        completions (`list[str]` or `list[list[dict[str, Any]]]`):
            Completions: texts, or lists of messages, of which the last one is judged.
        solution (`list[str]`):
            The true answer of each completion's problem: bare, in the last box of a text, or behind
            `####`.
        log_extra (`Callable[[str, list], None]`, *optional*):
            Logs extra columns to the completions table: `"solution"` (the true answer) and
            `"answer"`. The trainer provides it.
        **kwargs:
            The other columns of the data set, which are not used.

    Returns:
        `list[float | None]`:
            1.0 or 0.0 for each completion; None, which TRL leaves out of the sum, where the true
            answer is empty, unbalanced, longer than 512 characters or has control characters.

    Raises:
        ValueError: If there are not as many solutions as completions.

    Example:
        >>> completions = [r"It is \boxed{0.5}.", r"It is \boxed{5}.", "It is 0.5."]
        >>> accuracy_reward(completions, [r"\frac{1}{2}"] * 3)
        [1.0, 0.0, 0.0]
    """
    if len(solution) != len(completions):
        raise ValueError(
            f"solution must have one entry per completion, got {len(solution)} for "
            f"{len(completions)} completions: pass the `solution` column of the same rows"
        )
    truths = [truth_answer(text) for text in solution]
    answers = [extract_answer(completion_text(completion)) for completion in completions]
    if log_extra is not None:
        log_extra("solution", truths)
        log_extra("answer", ["[none]" if answer is None else answer for answer in answers])
    return [_outcome(truth, answer) for truth, answer in zip(truths, answers, strict=True)]


def format_reward(completions: Sequence[Completion], **kwargs) -> list[float]:
    r"""Reward 1.0 for a completion whose last `\boxed{` or `\fbox{` is closed, 0.0 for any other.

    Args:
        completions (`list[str]` or `list[list[dict[str, Any]]]`):
            Completions: texts, or lists of messages, of which the last one is judged.
        **kwargs:
            The columns of the data set, which are not used.

    Returns:
        `list[float]`:
            1.0 or 0.0 for each completion.

    Example:
        >>> format_reward([r"\boxed{7}", [{"role": "assistant", "content": r"\boxed{7"}]])
        [1.0, 0.0]
    """
    return [
        float(extract_answer(completion_text(completion)) is not None) for completion in completions
    ]


def get_reward_func(name: str, *, max_completion_length: int = 1280) -> RewardFunc:
    """Return the reward function with a name.

    Args:
        name (`str`):
            `"accuracy_reward"` or `"format_reward"` (this module's), `"think_format_reward"` or
            `"get_soft_overlong_punishment"` (TRL's), or the dotted path of any callable, such as
            `"my_lib.rewards.my_reward"`, also in the working directory.
        max_completion_length (`int`, *optional*, defaults to `1280`):
            Tokens at which the soft overlong punishment is full; it begins at four fifths of them.

    Returns:
        `Callable`:
            The reward function.

    Raises:
        ValueError: If there is none of that name, or it cannot be imported or called.
    """
    if name in _REGISTRY:
        return _REGISTRY[name](max_completion_length)
    return _import(name)


def _outcome(truth: str, answer: str | None) -> float | None:
    if why_inadmissible(truth, max_chars=MAX_TRUTH_CHARS):
        return None
    return float(answer is not None and answers_equivalent(truth, answer))


def completion_text(completion: Completion) -> str:
    """Return the text of a completion: of its last message, and of that only the text parts."""
    if isinstance(completion, str):
        return completion
    content = completion[-1].get("content") if completion else None
    if content is None or isinstance(content, str):
        return content or ""  # a call of a tool has no content
    return "".join(part.get("text") or "" for part in content)


def _import(path: str) -> Any:
    """Return the callable with a dotted path."""
    module_name, _, attribute = path.rpartition(".")
    if not module_name or not all(part.isidentifier() for part in path.split(".")):
        raise _unknown(path, "be a known name or a dotted path", path, _REGISTRY)
    # A console script, unlike `python -m`, does not have the working directory on its path. At the
    # end: it must not shadow an installed package.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise _unknown(path, f"be importable ({error})", path, _REGISTRY) from error
    known = [key for key, value in vars(module).items() if callable(value)]
    try:
        found = getattr(module, attribute)  # not vars(): TRL's modules load their names lazily
    except AttributeError as error:
        raise _unknown(path, f"exist in {module_name}", attribute, known) from error
    if not callable(found):
        raise _unknown(path, "be callable", attribute, known)
    return found


def _soft_overlong_punishment(max_completion_length: int) -> RewardFunc:
    punishment = _import("trl.rewards.get_soft_overlong_punishment")
    return punishment(max_completion_length, max_completion_length // 5)


# TRL's `reasoning_accuracy_reward` and cosine-scaled reward are left out: they read bare true
# answers as its `accuracy_reward` does. Who has boxed ones can still name them by their dotted
# paths.
_REGISTRY: dict[str, Callable[[int], RewardFunc]] = {
    "accuracy_reward": lambda _: accuracy_reward,
    "format_reward": lambda _: format_reward,
    "think_format_reward": lambda _: _import("trl.rewards.think_format_reward"),
    "get_soft_overlong_punishment": _soft_overlong_punishment,
}


def _unknown(name: str, rule: str, wanted: str, known: Iterable[str]) -> ValueError:
    known = sorted(known)
    nearest = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5) or known[:10]
    return ValueError(
        f"reward function must {rule}, got {name!r}: "
        f"did you mean one of {', '.join(nearest) or '(none)'}?"
    )
