r"""Reads answers that need no parser: `2\sqrt3`, `(1, \frac{x}{2}]`, `\{1, x^2\}`.

    sum      = [+ | -] product {(+ | -) product}
    product  = factor {(\cdot | \times | * | / | \div) factor | factor}
    factor   = atom [^ argument]
    atom     = number | letter | \pi | ( sum ) | \frac argument argument | \sqrt argument
    argument = { sum } | digit

Whatever else there is, and what can be read in two ways, such as `1/2x`, `1\frac12` and `f(x)`, is
no reading.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from .polynomials import (
    PI,
    GiveUp,
    Ratio,
    constant,
    inverse,
    negative,
    power,
    product,
    square_root,
    symbol,
    total,
)

INFINITY = symbol("\N{INFINITY}")

_MAX_CHARS = 200
_MAX_BRACKETS = 40
_REMEMBERED = 1024

# No d, e, E and I, which mean something to a parser; no ln, lg and three letters: maybe a word.
_TOKEN = re.compile(
    r"(?P<number>\d+(?:\.\d+)?|\.\d+)|(?P<letter>(?!l[gn])[A-DF-HJ-Za-cf-z](?![A-Za-z]{2}))"
    r"|(?P<sign>\\(?:frac|sqrt|pi|cdot|times|div)(?![A-Za-z])|[-+*/^(){}])| ",
    re.ASCII,
)
_BARE_FRACTION = re.compile(r"\\frac ?(\d)(\d)(?!\d)", re.ASCII)
_INFINITE = re.compile(r"([+-]?)\\infty")
_MATRIX = re.compile(r"\\begin\{([pb]matrix)\}(.*)\\end\{\1\}", re.DOTALL)
_AMBIGUOUS = {
    "thousands or two numbers": re.compile(r"(?<!\d)\d{1,3},\d{3}(?!\d)"),
    "factors or cycles": re.compile(r"[\d)] ?\(\d+\)"),
    "reciprocal or inverse function": re.compile(r"[A-Za-z]\^\{-1\} ?\("),
}


class Value(NamedTuple):
    """An expression."""

    form: str
    ratio: Ratio
    letters: frozenset[str]

    @property
    def is_decimal(self) -> bool:
        """Whether there is a decimal point: it may be rounded."""
        return "." in self.form


class Several(NamedTuple):
    """Values in brackets, braces or rows, or between commas."""

    kind: str
    """`"()"`, `"[)"` and the like, `"set"`, `"list"`, `"union"`, `"matrix"` or `"row"`."""
    parts: "tuple[Reading, ...]"


Reading = Value | Several


@lru_cache(_REMEMBERED)
def read(form: str) -> Reading | None:
    """Return what an answer means, None if that is not sure, or would take long.

    Args:
        form: A normal form (see [`~barl_trl.graders.strings.normal_form`]).
    """
    is_long = len(form) > _MAX_CHARS or sum(map(form.count, "([{")) > _MAX_BRACKETS
    if is_long or any(pattern.search(form) for pattern in _AMBIGUOUS.values()):
        return None
    try:
        return _reading(form)
    except GiveUp:
        return None


def _reading(form: str) -> Reading:
    form = form.strip()
    matrix = _MATRIX.fullmatch(form)
    if matrix:
        rows = (_several("row", row.split("&")) for row in matrix[2].split(r"\\"))
        return Several("matrix", tuple(rows))
    for kind, separator in (("union", r"\cup"), ("list", ",")):
        pieces = _split(form, separator)
        if len(pieces) > 1:
            return _several(kind, pieces)
    if form.startswith(r"\{") and form.endswith(r"\}"):
        return _several("set", _split(form[2:-2], ","))
    if form.startswith(("(", "[")) and form.endswith((")", "]")):
        pieces = _split(form[1:-1], ",")
        if len(pieces) > 1:
            return _several(form[0] + form[-1], pieces)
    return _value(form)


def _several(kind: str, pieces: list[str]) -> Several:
    return Several(kind, tuple(map(_reading, pieces)))


def _split(form: str, separator: str) -> list[str]:
    """Return the pieces between separators outside brackets."""
    pieces, depth, start = [], 0, 0
    for i, character in enumerate(form):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and form.startswith(separator, i):
            pieces.append(form[start:i])
            start = i + len(separator)
    return [*pieces, form[start:]]


def _value(form: str) -> Value:
    infinite = _INFINITE.fullmatch(form)
    if infinite:
        ratio = negative(INFINITY) if infinite[1] == "-" else INFINITY
        return Value(form, ratio, frozenset())
    reader = _Reader(_BARE_FRACTION.sub(r"\\frac{\1}{\2}", form))
    return Value(form, reader.read(), reader.letters)


class _Reader:
    """Reads one expression from left to right."""

    def __init__(self, form: str):
        found = [*_TOKEN.finditer(form)]
        if "".join(match[0] for match in found) != form:
            raise GiveUp
        self._tokens = [(match.lastgroup, match[0]) for match in found if match[0] != " "]
        self._next = 0
        self.letters = frozenset(text for kind, text in self._tokens if kind == "letter")

    def read(self) -> Ratio:
        ratio = self._sum()
        if self._next < len(self._tokens):
            raise GiveUp
        return ratio

    def _peek(self) -> tuple[str | None, str]:
        return self._tokens[self._next] if self._next < len(self._tokens) else (None, "")

    def _take(self, *signs: str) -> str | None:
        """Take the next token if it is one of these signs."""
        text = self._peek()[1]
        if text not in signs:
            return None
        self._next += 1
        return text

    def _sum(self) -> Ratio:
        sign = self._take("+", "-")
        ratio = self._product()
        ratio = negative(ratio) if sign == "-" else ratio
        while sign := self._take("+", "-"):
            term = self._product()
            ratio = total(ratio, negative(term) if sign == "-" else term)
        return ratio

    def _product(self) -> Ratio:
        ratio, is_divided = self._factor(), False
        while True:
            sign = self._take("*", "/", r"\cdot", r"\times", r"\div")
            if not sign and not self._goes_on():
                return ratio
            if not sign and is_divided:
                raise GiveUp  # 1/2x
            is_divided = sign in ("/", r"\div")
            factor = self._factor()
            ratio = product(ratio, inverse(factor) if is_divided else factor)

    def _goes_on(self) -> bool:
        """Whether a factor follows without a sign."""
        before, (kind, text) = self._tokens[self._next - 1][0], self._peek()
        if kind == "number" or (before == "number" and text == r"\frac"):
            raise GiveUp  # x2, 1\frac12
        if before == "letter" and text == "(":
            raise GiveUp  # f(x)
        return kind == "letter" or text in ("(", r"\frac", r"\sqrt", r"\pi")

    def _factor(self) -> Ratio:
        ratio = self._atom()
        return power(ratio, self._argument()) if self._take("^") else ratio

    def _atom(self) -> Ratio:
        kind, text = self._peek()
        self._next += 1
        if kind == "number":
            return constant(Fraction(text))
        if kind == "letter":
            return symbol(text) if text != "i" else square_root(constant(-1))
        if text == r"\pi":
            return symbol(PI)
        if text == "(":
            return self._closed(")")
        if text == r"\frac":
            above = self._argument()
            return product(above, inverse(self._argument()))
        if text == r"\sqrt":
            return square_root(self._argument())
        raise GiveUp

    def _argument(self) -> Ratio:
        if self._take("{"):
            return self._closed("}")
        kind, text = self._peek()
        if kind != "number" or len(text) > 1:
            raise GiveUp
        return self._atom()

    def _closed(self, bracket: str) -> Ratio:
        ratio = self._sum()
        if not self._take(bracket):
            raise GiveUp
        return ratio
