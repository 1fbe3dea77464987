r"""The grading conventions of the Qwen2.5-Math evaluation, which many papers report numbers of.

They are lenient: `(0,1)` equals `[0,1]`, 50 equals 0.5 (a percentage), 3.0001 equals 3, `x=5`
equals `y=5`, units do not count. They are here to compare with published numbers, not as the grader
to train with.

README.md beside this file says what it was written from, and what differs on purpose.
"""

import math
import re

from ..limits import why_not_compared
from ..normal_form import words
from ..processes import compare
from ..verdict import Verdict
from .normal_form import NAME, normal_form

VERSION = "1"
"""Changes whenever a verdict may change."""

_RELATIVE = 1e-4
_MAX_ELEMENTS = 64

_BRACE = re.compile("[{}]")
_LAST_NUMBER = re.compile(r"-?[0-9]*\.?[0-9]+")
_LINE_BREAK = re.compile(r"\n\s*")
_CHOICE = re.compile(r"\b[A-E]\b")
_NUMBER = re.compile(
    r"[+-]?(?=\.?[0-9])(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?"
)
_BASE = re.compile(r"(?<=[0-9])\}?_\{?([0-9A-Za-z]+)")
_APART = re.compile("[0-9] [0-9]")
_PROSE = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{8}")
_EQUALS = re.compile(r"(?<![<>!:=])=(?!=)")
_MATRIX = re.compile(r"\\begin\{pmatrix\}((?:(?!\\begin).)*)\\end\{pmatrix\}", re.DOTALL)
_ELEMENT = re.compile(r",|&|\\\\|\\cup")
_SEPARATOR = re.compile(r"\\cup(?![A-Za-z])|[][(){},]")


def extract_answer(text: str) -> str | None:
    r"""Return the answer of a completion, normalised.

    The first of these that occurs decides: Minerva's "final answer is $…$. I hope", the last
    `boxed` (braces matched; without a brace up to `$`), what follows the last "he answer is", the
    last "final answer is", the first 答案是; else the last number. Time is linear in the text.

    Args:
        text: A completion.

    Returns:
        The answer; None if there is none or nothing is left of it.

    Example:
        >>> extract_answer(r"So \boxed{\frac12}."), extract_answer("It is 1,200 km.")
        ('\\frac{1}{2}', '1200')
    """
    answer = _LINE_BREAK.sub("", _found(text.replace("ки", "")).strip())  # a slip of Qwen's
    return normal_form(answer.removeprefix(":").removesuffix(".").removesuffix("/")) or None


def _found(text: str) -> str:
    if "final answer is $" in text and "$. I hope" in text:
        return text.partition("final answer is $")[2].partition("$. I hope")[0]
    if "boxed" in text:
        return _boxed(text.rpartition("boxed")[2])
    for trigger in ("he answer is", "final answer is"):
        if trigger in text:
            return text.rpartition(trigger)[2]
    if "答案是" in text:
        return text.split("答案是")[1].strip().partition("\n\n")[0]
    number = ""
    for match in _LAST_NUMBER.finditer(text.replace(",", "")):
        number = match[0]
    return number


def _boxed(text: str) -> str:
    if not text.startswith("{"):
        return text.partition("$")[0]
    depth = 0
    for brace in _BRACE.finditer(text):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[1 : brace.start()]
    return text[1:]


def verify(gold: str, answer: str) -> Verdict:
    r"""Return whether an answer is the true one by the conventions of the evaluation.

    In this order: equal strings (whatever the case), multiple choice, numbers (to a relative 1e-4;
    100 times or a hundredth of the true one too), words as words, elements, and what a parser and
    sympy make of both. A comparison that takes too long, or crashes, is a "no".

    Args:
        gold: The true answer, bare.
        answer: The answer to judge, bare, normalised or not.

    Returns:
        Whether it is correct, and what decided it.

    Raises:
        RuntimeError: If the process that compares cannot be started at all.
    """
    truth, given = normal_form(gold), normal_form(answer)
    if not truth or not given:
        return Verdict(False, "empty")
    if len(truth) == 1 and truth in "ABCDE":
        letters = _CHOICE.findall(answer.upper())
        return Verdict(letters[-1:] == [truth], "choice")
    settled = _settled(truth, given)
    if settled is not None:
        return settled
    for side, form in (("gold", truth), ("answer", given)):
        why = why_not_compared(form)
        if why is None and len(_ELEMENT.findall(form)) >= _MAX_ELEMENTS:
            why = "elements"
        if why:
            return Verdict(False, f"{side} refused: {why}")
    return _compared(truth, given)


def _settled(truth: str, given: str) -> Verdict | None:
    """Return what strings and numbers say; None if they leave it open."""
    if truth.lower() == given.lower():
        return Verdict(True, "equal strings")
    expected, got = _number(truth), _number(given)
    if expected is not None and got is not None:
        multiples = (expected / 100, expected, expected * 100)
        close = any(math.isclose(value, got, rel_tol=_RELATIVE) for value in multiples)
        return Verdict(close, "equal numbers" if close else "different numbers")
    if _APART.search(truth) or _APART.search(given):
        return Verdict(False, "digits apart")
    if words(truth) is not None or _PROSE.search(truth) or _PROSE.search(given):
        return Verdict(False, "different words")
    if truth.count("'") != given.count("'"):  # the parser drops primes, and bases
        return Verdict(False, "different primes")
    bases = _BASE.findall(truth), _BASE.findall(given)
    if all(bases) and bases[0] != bases[1]:
        return Verdict(False, "different bases")
    return None


def _compared(truth: str, given: str) -> Verdict:
    """Elements one by one, all else in a process."""
    bare = _bare(truth), _bare(given)
    shapes, elements = zip(*map(_elements, bare), strict=True)
    # Without its brackets the interval (1,200) looks like a number.
    settled = _settled(truth, given) if any(shapes) else _settled(*bare)
    if settled is not None:
        return settled
    if len(_EQUALS.findall(truth)) != len(_EQUALS.findall(given)):
        unnamed = NAME.sub("", truth), NAME.sub("", given)
        if unnamed != (truth, given):
            return _compared(*unnamed)
    if all(shapes):
        if shapes[0] != shapes[1]:
            return Verdict(False, "different shapes")
        verdict = _all_compared(*elements)
        # A set has no order, and matrices may still be equal when rounded.
        is_open = truth[0] == given[0] == "{" or shapes[0][0] == "&"
        if not is_open or verdict.reason in ("equal elements", "timeout", "crash"):
            return verdict
    outcome = compare("qwen", truth, given)
    if outcome in ("timeout", "crash"):
        return Verdict(False, outcome)
    return Verdict(outcome == "equal", "sympy")


def _all_compared(truths: list[str], givens: list[str]) -> Verdict:
    for truth, given in zip(truths, givens, strict=True):
        verdict = _compared(truth, given)
        if not verdict.correct:
            return verdict
    return Verdict(True, "equal elements")


def _number(form: str) -> float | None:
    if not _NUMBER.fullmatch(form):
        return None
    value = float(form.replace(",", ""))
    return value if math.isfinite(value) else None


def _bare(form: str) -> str:
    """Without brackets, of whichever kind, around all of it."""
    while form[:1] in ("(", "[", "{") and form[-1] in ")]}" and len(form) > 2:
        depth = 0
        for character in form[:-1]:
            depth += (character in "([{") - (character in ")]}")
            if depth == 0:
                return form
        form = form[1:-1]
    return form


def _elements(form: str) -> tuple[tuple, list[str]]:
    """Shape and elements of a matrix, a union or a list; both empty for anything else."""
    matrix = _MATRIX.fullmatch(form)
    if matrix:
        rows = [row.split("&") for row in matrix[1].split(r"\\") if row.strip()]
        return ("&", *map(len, rows)), [cell.strip() for row in rows for cell in row]
    for separator in (r"\cup", ","):
        parts, depth, start = [], 0, 0
        for token in _SEPARATOR.finditer(form):
            depth += (token[0] in "([{") - (token[0] in ")]}")
            if token[0] == separator and depth == 0:
                parts.append(form[start : token.start()].strip())
                start = token.end()
        if parts:
            return (separator, len(parts)), [*parts, form[start:].strip()]
    return (), []
