"""What can be said about an answer by looking at its characters, before any parser sees it."""

import re
import unicodedata
from decimal import Decimal
from math import prod
from typing import Any

MAX_TRUTH_CHARS = 512
"""Longest admissible true answer in characters: longer ones are never handed to a parser."""

_EXACT_FLOAT = 2**53  # from here on a float is no longer a certain integer
_MAX_DIGITS = 100
_MAX_NESTING = 12
_MAX_EXPONENT = 10_000
_MAX_FACTORIAL = 1_000

# Cc: control (line breaks too); Cf: zero-width and bidirectional marks; Cs: lone surrogates; Zl,
# Zp: line separators.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

_BRACE = re.compile(r"\\.|[{}\\]", re.DOTALL)
_MATH_MODE = re.compile(r"(\${1,2})([^$]*)(?<!\\)\1")
_LEFT_RIGHT = re.compile(r"\\(?:left|right|[bB]igg?[lrm]?)(?![A-Za-z])")
_DIGIT_GROUP = re.compile(r"(?<=\d)(?:\\,|,?\\!|\{,\}) ?(?=\d{3}(?!\d))")
_CURRENCY = re.compile(r"\\\$|^\$")
_LONE_BACKSLASH = re.compile(r"(?<!\\)\\$")
_SAME = (
    *((r"\dfrac", r"\frac"), (r"\tfrac", r"\frac"), (r"\%", "%"), ("\N{MINUS SIGN}", "-")),
    *((r"\varnothing", r"\emptyset"), ("∅", r"\emptyset")),
    *(("π", r"\pi "), ("∞", r"\infty "), ("×", r"\times "), ("·", r"\cdot ")),
    *(("≤", r"\le "), ("≥", r"\ge "), ("≠", r"\ne "), ("∪", r"\cup ")),
    *((r"\lbrace", r"\{"), (r"\rbrace", r"\}"), (r"\langle", "("), (r"\rangle", ")")),
)
_CHINESE = re.compile("[\u3000-\u9fff\uff00-\uffef]+")
_ROOT = re.compile(r"√(\d+|[A-Za-z])")
_ESCAPED_TWICE = re.compile(
    r"\\\\(?=(?:left|right|[dt]?frac|sqrt|text|cdot|times|pi|leq?|geq?|in|cup|infty)(?![A-Za-z]))"
)
_SPACING = re.compile(r"(\\\\)|\\(?:[,;:! ]|quad(?![A-Za-z])|qquad(?![A-Za-z]))|~")
# Spaces between two digits, letters or after a comma mean something: `1 1/2`, `x y`, `1, 200`.
_IDLE_SPACE = re.compile(r"(?<![0-9A-Za-z,]) | (?![0-9A-Za-z])")
_SHORT_WORDS = frozenset({"no", "on"})
_TEXT = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mbox)\s*\{([^{}\\]*)\}")

_REFUSED = {
    "digit run": re.compile(r"\d{101}"),
    "nested factorial": re.compile(r"![\s)}\]]*!"),
    "eager operation": re.compile(
        r"\\(?:sum|prod|i*nt|oint|lim|det|gcd|lcm|Gamma|def)(?![A-Za-z])"
    ),
    "code": re.compile(r"__|\b(?:import|lambda|eval|exec)\b"),
}
_EXPONENT = re.compile(r"(?:\^|\*\*)[\s{(+-]*(\d+)")
_TOWER = re.compile(r"(?:\^|\*\*)[\s{(+-]*\d+\s*(?:\^|\*\*)")
_POWER_OF_POWER = re.compile(r"(?:\^|\*\*)[\s{(+-]*\d+[\s}]*\)[\s})]*(?:\^|\*\*)")
_FACTORIAL = re.compile(r"(\d+)[\s)}]*!|\\[dt]?binom\s*\{?\s*(\d+)")
_MAX_COUNTS = {
    "commas": (re.compile(","), 64),
    "bars": (re.compile(r"\||\\[lr]?vert"), 8),
    "matrix cells": (re.compile(r"&|\\\\"), 200),
    "operators": (re.compile(r"[-+*/^=<>]|\\(?:frac|cdot|times|sqrt)"), 256),
}


def is_balanced(text: str) -> bool:
    r"""Return whether every brace is matched.

    `\{` and `\}` are not braces. A lone backslash at the end is not balanced: it would escape
    whatever is put behind it.
    """
    depth = 0
    for token in _BRACE.finditer(text):
        if token[0] == "\\":
            return False
        depth += (token[0] == "{") - (token[0] == "}")
        if depth < 0:
            return False
    return depth == 0


def has_unseen_characters(text: str) -> bool:
    """Return whether some character is a control character, a line break or an invisible mark."""
    return any(unicodedata.category(character) in _UNSEEN for character in text)


def without_math_mode(text: str) -> str:
    r"""Return the text without blanks and without one `$…$` or `$$…$$` around all of it."""
    text = text.strip()
    enclosed = _MATH_MODE.fullmatch(text)
    return enclosed[2].strip() if enclosed else text


def normal_form(answer: str) -> str:
    r"""Return the answer in a form in which equal strings are surely equal answers.

    Undone are only differences without a meaning: `$…$`, a final full stop, `\left` and `\right`,
    the size of a fraction, the separators of `10{,}000` and `10\,000`, idle spaces, the backslash
    of `\%`, the dollars of `\$5`, a lone backslash at the end and some Unicode signs; bare
    Chinese words, as in `5个`, become `\text{…}`.
    """
    form = _ESCAPED_TWICE.sub(r"\\", without_math_mode(answer).removesuffix("."))
    form = _CURRENCY.sub("", _LONE_BACKSLASH.sub("", form))
    form = _DIGIT_GROUP.sub("", _LEFT_RIGHT.sub("", form))
    for written, meant in _SAME:
        form = form.replace(written, meant)
    form = _ROOT.sub(r"\\sqrt{\1}", form)
    if r"\text" not in form:
        form = _CHINESE.sub(r"\\text{\g<0>}", form)
    form = _SPACING.sub(lambda match: match[1] or " ", form)
    return _IDLE_SPACE.sub("", " ".join(form.split()))


def words(answer: str) -> str | None:
    r"""Return an answer of words, such as `\text{Evelyn}` or `yes`, in lower case, else None.

    A parser reads words as products of variables, so that `seat` equals `east`. Bare answers of two
    letters stay products.
    """
    form = without_math_mode(answer).removesuffix(".")
    if form.lower() in _SHORT_WORDS:
        return form.lower()
    wrapped = _TEXT.fullmatch(form)
    content = " ".join((wrapped[1] if wrapped else form).removesuffix(".").split())
    letters = content.translate(str.maketrans("", "", " -'"))
    if not letters.isalpha() or len(letters) < (2 if wrapped else 3):
        return None
    return content.casefold()


def why_not_compared(answer: str) -> str | None:
    """Return why an answer is not handed to a parser, None if it may be.

    Refused is what could cost seconds or gigabytes there. The limits refuse none of the true
    answers of MATH-500, OlympiadBench, GSM8K, AIME and AMC, and 3 % of those of CollegeMath. They
    are no guarantee: the process that compares is limited too.
    """
    if len(answer) > MAX_TRUTH_CHARS:
        return "length"
    if not is_balanced(answer):  # it would end the box that it is put in
        return "unbalanced"
    if has_unseen_characters(answer.translate({ord("\n"): " ", ord("\t"): " "})):
        return "control characters"
    if _nesting(answer) > _MAX_NESTING:
        return "nesting"
    if _has_huge_power(answer):
        return "exponent"
    if any(int(match[1] or match[2]) > _MAX_FACTORIAL for match in _FACTORIAL.finditer(answer)):
        return "factorial or binomial"
    for reason, pattern in _REFUSED.items():
        if pattern.search(answer):
            return reason
    for reason, (pattern, most) in _MAX_COUNTS.items():
        if sum(1 for _ in pattern.finditer(answer)) > most:
            return reason
    return None


def _has_huge_power(answer: str) -> bool:
    """Whether a power may have some 10^4 digits or more: `9^99999`, `9^{9^9}`, `((x^9)^99)^99`."""
    exponents = [match[1] for match in _EXPONENT.finditer(answer)]
    if any(len(exponent) > 5 or int(exponent) > _MAX_EXPONENT for exponent in exponents):
        return True
    sizes = [int(exponent) for exponent in exponents]
    if _TOWER.search(answer):
        return len(sizes) != 2 or sizes[1] > 13 or sizes[0] ** sizes[1] > _MAX_EXPONENT
    return _POWER_OF_POWER.search(answer) is not None and prod(sizes) > _MAX_EXPONENT


def _nesting(text: str) -> int:
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    return deepest


def plain_text(value: Any) -> str | None:
    """Return a cell as text: the float 27.0 as "27", a list of one item as that item."""
    if isinstance(value, list) and len(value) == 1:
        return plain_text(value[0])
    if isinstance(value, str):
        return value if _is_unicode(value) else None
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, float) and not abs(value) < _EXACT_FLOAT:  # nan, inf too
        return None
    if isinstance(value, float | Decimal):
        number = Decimal(str(value))
        if abs(number.adjusted()) > _MAX_DIGITS:  # 1e999999999 would fill the memory
            return str(number)
        whole = number.to_integral_value()
        return format(whole if number == whole else number, "f")
    return None


def _is_unicode(text: str) -> bool:
    """Return whether the text can be stored: JSON may escape half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
