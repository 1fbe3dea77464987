"""Answers that are plain numbers, as exact fractions: no parser is needed for most of them."""

import re
from fractions import Fraction
from typing import NamedTuple

_ROUNDED_PLACES = 6  # as in math-verify
_RELATIVE = Fraction(1, 100_000)
_MAX_CHARS = 100

_INTEGER = r"(?:[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?: \d{3})+|\d+)"
_DECIMAL = re.compile(rf"([+-]?)(?:({_INTEGER})(?:\.(\d*))?|\.(\d+))", re.ASCII)
_FRACTION = re.compile(
    r"([+-]?)(?:(\d+) ?)??(?:\\frac(?:\{([+-]?\d+)\}|(\d))(?:\{(\d+)\}|(\d))|(\d+)/(\d+))",
    re.ASCII,
)
_REPEATING = re.compile(r"([+-]?)(\d*)\.(\d*)\\overline\{(\d+)\}", re.ASCII)
_SCIENTIFIC = re.compile(
    r"([+-]?\d+(?:\.\d+)?) ?(?:\\times|\\cdot) ?10\^(?:\{([+-]?\d{1,3})\}|(\d))", re.ASCII
)
# Three digits behind the comma are a group of thousands (but not behind 0).
_DECIMAL_COMMA = re.compile(r"([+-]?\d+),(\d{1,2}|\d{4,})", re.ASCII)


class Number(NamedTuple):
    """A number, its decimal places (0 if it cannot be a rounded one), and whether it had a `%`."""

    value: Fraction
    places: int = 0
    is_percent: bool = False


def number(form: str) -> Number | None:
    r"""Return what `42`, `-1,000.5`, `3/4`, `1\frac{1}{2}` or `1 1/2` means; None for all else.

    Args:
        form: A normal form (see [`~barl_trl.graders.normal_form.normal_form`]).
    """
    if len(form) > _MAX_CHARS:
        return None
    if form.endswith("%"):
        found = number(form[:-1].rstrip())
        return (found and not found.is_percent and found._replace(is_percent=True)) or None
    decimal = _DECIMAL.fullmatch(form)
    if decimal:
        sign, whole, *decimals = decimal.groups()
        places = next(filter(None, decimals), "")
        digits = f"{sign}{re.sub('[, ]', '', whole or '0')}.{places or '0'}"
        return Number(Fraction(digits), len(places))
    scientific = _SCIENTIFIC.fullmatch(form)
    if scientific:
        mantissa, *exponent = scientific.groups()
        power = Fraction(10) ** int(next(filter(None, exponent)))
        return Number(Fraction(mantissa) * power)
    repeating = _REPEATING.fullmatch(form)
    if repeating:
        sign, whole, places, period = repeating.groups()
        nines = (10 ** len(period) - 1) * 10 ** len(places)
        value = Fraction(f"{whole or 0}.{places}0") + Fraction(int(period), nines)
        return Number(-value if sign == "-" else value)
    match = _FRACTION.fullmatch(form)
    if not match:
        return None
    sign, whole, *parts = match.groups()
    numerator, denominator = (int(part) for part in parts if part)
    if denominator == 0 or (whole and (numerator < 0 or numerator >= denominator)):
        return None
    value = int(whole or 0) + Fraction(numerator, denominator)
    return Number(-value if sign == "-" else value)


def equal_numbers(gold: Number, answer: Number) -> bool:
    """Return whether a number is the true one.

    They must be equal, or one must be a decimal of at least six places to which the other rounds,
    and differ by at most 1e-5 of the true one: 0.000000 is not 1e-7. 50 % is 0.5, and 50 too if the
    sign was forgotten; 0.5 % is not 0.5.
    """
    if gold.is_percent == answer.is_percent:
        return _equal(gold, answer)
    percent, plain = (gold, answer) if gold.is_percent else (answer, gold)
    hundredth = Number(percent.value / 100, percent.places and percent.places + 2)
    return _equal(hundredth, plain) or (abs(percent.value) >= 1 and _equal(percent, plain))


def _equal(gold: Number, answer: Number) -> bool:
    difference = abs(gold.value - answer.value)
    is_rounded = any(
        a.places >= _ROUNDED_PLACES and difference * 2 * 10**a.places <= 1 for a in (gold, answer)
    )
    return difference == 0 or (is_rounded and difference <= _RELATIVE * abs(gold.value))


def is_decimal_comma_of(form: str, other: str) -> bool:
    """Return whether a form is another one, like `2.75`, with a comma for its point."""
    comma = _DECIMAL_COMMA.fullmatch(form)
    return comma is not None and f"{comma[1]}.{comma[2]}" == other
