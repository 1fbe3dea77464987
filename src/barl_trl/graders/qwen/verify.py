"""The conventions of the Qwen2.5-Math evaluation; README.md says where these differ on purpose."""

import math
import re
from itertools import accumulate

from ..limits import why_not_compared
from ..processes import compare
from ..verdict import Verdict
from .normal_form import NAME, normal_form

VERSION = "2"
"""Changes whenever a verdict may change."""

RELATIVE = 1e-4
_NUMBER = r"[+-]?(?=\.?[0-9])([0-9]{1,3}(,[0-9]{3})+|[0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?"
_WORDS = r"(?i)\A(no|on|([-']?[^\W\d_]){3,});|[0-9] [0-9]|(?<![\\a-z])[a-z]{8}"
_BASE = r"(?<=[0-9])\}?_\{?([0-9A-Za-z]+)"


def extract_answer(text: str) -> str | None:
    r"""Return the answer of a completion, normalised; None if nothing is left of it.

    The first of these that occurs decides: Minerva's "final answer is $…$. I hope", the last
    `boxed` (braces matched; without a brace up to `$`), what follows the last "he answer is", the
    last "final answer is", the first 答案是; else the last number. Time is linear in the text.

    Example:
        >>> extract_answer(r"So \boxed{\frac12}."), extract_answer("It is 1,200 km.")
        ('\\frac{1}{2}', '1200')
    """
    answer = re.sub(r"\n\s*", "", _found(text.replace("ки", "")).strip())  # a slip of Qwen's
    return normal_form(answer.removeprefix(":").removesuffix(".").removesuffix("/")) or None


def _found(text: str) -> str:
    if "final answer is $" in text and "$. I hope" in text:
        return text.partition("final answer is $")[2].partition("$. I hope")[0]
    if "boxed" in text:
        box = text.rpartition("boxed")[2]
        depths = _depths(box, "{", "}")
        end = depths.index(0) if 0 in depths else None
        return box[1:end] if box.startswith("{") else box.partition("$")[0]
    for trigger in ("he answer is", "final answer is"):
        if trigger in text:
            return text.rpartition(trigger)[2]
    if "答案是" in text:
        return text.split("答案是")[1].strip().partition("\n\n")[0]
    return (re.findall(r"-?[0-9]*\.?[0-9]+", text.replace(",", "")) or [""])[-1]


def verify(gold: str, answer: str) -> Verdict:
    r"""Return whether an answer is the true one by the conventions of the evaluation.

    Choices, strings, numbers (a hundredth or 100 times the true one too), elements, and what sympy
    makes of both decide, in this order. A comparison that takes too long, or crashes, is a "no".
    """
    truth, given = normal_form(gold), normal_form(answer)
    if not truth or not given:
        reason = "empty"
    elif re.fullmatch("[A-E]", truth):
        letters = re.findall(r"\b[A-E]\b", answer.upper())
        reason = "equal choices" if letters[-1:] == [truth] else "different choices"
    else:
        reason = _settled(truth, given) or _compared(truth, given)
    return Verdict(reason.startswith("equal"), reason)


def _settled(truth: str, given: str) -> str:
    """Return what strings and numbers say; nothing if they leave it open."""
    if truth.lower() == given.lower():
        return "equal strings"
    numbers = [float(one.replace(",", "")) for one in (truth, given) if re.fullmatch(_NUMBER, one)]
    if len(numbers) == 2 and all(map(math.isfinite, numbers)):
        multiples = (numbers[0] / 100, numbers[0], numbers[0] * 100)
        is_close = any(math.isclose(value, numbers[1], rel_tol=RELATIVE) for value in multiples)
        return "equal numbers" if is_close else "different numbers"
    if re.search(_WORDS, f"{truth};{given}") or truth.count("'") != given.count("'"):
        return "different words"
    bases = [re.findall(_BASE, form) for form in (truth, given)]
    return "different bases" if all(bases) and bases[0] != bases[1] else ""


def _compared(truth: str, given: str) -> str:
    """Compare elements one by one, all else in a process."""
    for side, form in (("gold", truth), ("answer", given)):
        if why := why_not_compared(form):
            return f"{side} refused: {why}"
    (truths, layout), (givens, other_layout) = _elements(truth), _elements(given)
    is_bare = not layout and not other_layout  # without brackets (1,200) would be a number
    if settled := _settled(*truths, *givens) if is_bare else _settled(truth, given):
        return settled
    unnamed = re.sub(NAME, "", truth), re.sub(NAME, "", given)
    if truth.count("=") != given.count("=") and unnamed != (truth, given):
        return _compared(*unnamed)
    if layout and other_layout:
        if layout != other_layout:
            return "different shapes"
        reasons = map(_compared, truths, givens)
        reason = next((reason for reason in reasons if not reason.startswith("equal")), None)
        # A set has no order, and matrices may still be equal when rounded.
        is_open = truth[0] == given[0] == "{" or layout[0] in ("&", r"\\")
        if not is_open or reason in (None, "timeout", "crash"):
            return reason or "equal elements"
    return compare("qwen", truth, given)


def _elements(form: str) -> tuple[list[str], list[str]]:
    """Split a list, union or matrix without its brackets; return also what separates them."""
    separator = r"\\cup(?![A-Za-z])|," + (r"|&|\\\\" if "pmatrix" in form else "")
    form = form.replace(r"\begin{pmatrix}", "(").replace(r"\end{pmatrix}", ")")
    while len(form) > 2 and form[-1] in ")]}" and min(_depths(form[:-1])) > 0:
        form = form[1:-1].removesuffix(r"\\")
    depths = [0, *_depths(form)]
    marked = re.sub(separator, lambda it: it[0] if depths[it.start()] else f"\0{it[0]}\0", form)
    parts = [part.strip() for part in marked.split("\0")]
    return parts[::2], parts[1::2]


def _depths(text: str, opening: str = "([{", closing: str = ")]}") -> list[int]:
    """How many brackets are open behind each character."""
    return list(accumulate((one in opening) - (one in closing) for one in text))
