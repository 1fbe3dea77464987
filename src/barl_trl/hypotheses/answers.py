"""Answers as text: the true answer of a row, whether two are the same, which may be hypotheses."""

import re
from collections.abc import Collection
from decimal import Decimal
from typing import Any

from ..graders import extract_answer, verify
from ..graders.normal_form import (
    MAX_TRUTH_CHARS,
    has_unseen_characters,
    is_balanced,
    without_frame,
)

_MOST_WITHOUT_ANSWER = 0.2
"""Share of a run's responses that may have no answer before the run says so."""

_EXACT_FLOAT = 2**53  # from here on a float is no longer a certain integer
_EXACT_FLOAT_32 = 2**24
_MAX_DIGITS = 100


def plain_text(value: Any) -> str | None:
    """Return a cell as text: the float 27.0 as "27", a list of one item as that item.

    NumPy and PyTorch round numbers to 32 bits, so only whole numbers of theirs are certain.
    """
    if isinstance(value, list) and len(value) == 1:
        return plain_text(value[0])
    if isinstance(value, str):  # JSON may escape half of a surrogate pair
        return None if re.search("[\ud800-\udfff]", value) else value
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, Decimal) or (isinstance(value, float) and abs(value) < _EXACT_FLOAT):
        number = Decimal(str(value))
        if abs(number.adjusted()) > _MAX_DIGITS:  # 1e999999999 would fill the memory
            return str(number)
        whole = number.to_integral_value()
        return format(whole if number == whole else number, "f")
    if hasattr(value, "tolist"):  # a data set's format is "numpy" or "torch"
        array: Any = value
        item = array.tolist()
        while isinstance(item, list) and len(item) == 1:
            (item,) = item
        if isinstance(item, float) and not (item.is_integer() and abs(item) < _EXACT_FLOAT_32):
            return None
        return plain_text(item)
    return None


def truth_answer(value: Any) -> str:
    r"""Return the true answer from a cell of a data set's answer or solution column.

    It is the answer in the text's last box, else what follows the last `####` (GSM8K), else the
    whole text. An enclosing `$…$` is taken off, for a box is in math mode already, and line breaks,
    which TeX reads as spaces, become spaces.

    Args:
        value: A bare answer, or a worked solution with its answer in a box or after `####`: text,
            a number, or a list of one of them. Anything else has no answer.

    Returns:
        The answer; it may be empty or inadmissible (see [`why_inadmissible`]).

    Example:
        >>> truth_answer("She sells 9 eggs for 2 dollars each.\n#### 18"), truth_answer(r"$3\pi$")
        ('18', '3\\pi')
    """
    text = plain_text(value) or ""
    boxed = extract_answer(text)
    answer = text.rpartition("####")[2] if boxed is None else boxed
    return " ".join(line.strip() for line in without_frame(answer).split("\n"))


def answers_equivalent(a: str, b: str) -> bool:
    r"""Return whether `b` is the same answer as the true answer `a`, to the default grader.

    The relation is neither symmetric nor transitive. A comparison that takes more than 3 s of CPU
    time, or crashes, is a "no". Verdicts are remembered. Safe to call from any thread.

    Args:
        a: The true answer.
        b: The answer to judge.

    Returns:
        Whether they are equivalent; an answer without content is equivalent to nothing. For the
        reason see [`~barl_trl.graders.verify`].

    Raises:
        RuntimeError: If no process that compares can be started.

    Example:
        >>> answers_equivalent(r"\frac{1}{2}", "0.5"), answers_equivalent(r"3\pi", "3")
        (True, False)
    """
    return verify(a, b).correct


def why_inadmissible(
    answer: str, *, max_chars: int, special_tokens: Collection[str] = ()
) -> str | None:
    r"""Return why an answer may not become a hypothesis; None if it may.

    A hypothesis is put back after a state as `\boxed{…}.`, so it has to be one line of plain,
    balanced text.

    Args:
        answer: The answer.
        max_chars: Longest admissible answer in characters.
        special_tokens: Texts of the tokenizer's special tokens: tokenised again they would end or
            restart a turn.

    Returns:
        `"empty"`, `"unbalanced"`, `"control_characters"` (line breaks and invisible characters
        too), `"special_token"`, `"too_long"` or None; the first that applies.
    """
    if not answer.strip():
        return "empty"
    if not is_balanced(answer):
        return "unbalanced"
    if has_unseen_characters(answer):
        return "control_characters"
    if any(token in answer for token in special_tokens if token):
        return "special_token"
    return "too_long" if len(answer) > max_chars else None


def is_truth(answer: str) -> bool:
    """Return whether a true answer is usable: admissible, with at most 512 characters."""
    return why_inadmissible(answer, max_chars=MAX_TRUTH_CHARS) is None


def no_answer_advice(share: float) -> str | None:
    """Say that too many responses have no answer in a box, and what helps.

    Args:
        share: Share of a run's responses that have no answer, in [0, 1].
    """
    if share <= _MOST_WITHOUT_ANSWER:
        return None
    return (
        f"{100 * share:.0f} % of the responses have no answer: they do not box it, or were cut "
        'off. extraction="stated" also reads "the answer is 42" and the like (docs/graders.md).'
    )
