"""Answers that are plain numbers, as exact fractions: no parser is needed for most of them."""

import re
from fractions import Fraction
from typing import NamedTuple

_ROUNDED_PLACES = 6  # as in math-verify
_RELATIVE = Fraction(1, 100_000)
_MAX_CHARS = 100

_DECIMAL = re.compile(
    r"([+-]?)(?=\.?\d|\.\\)([1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?: \d{3})+|\d*)"
    r"(?:\.(\d*)(?:\\overline\{(\d+)\})?)?"
    r"(?: ?\\(?:times|cdot) ?10\^(?:\{([+-]?\d{1,3})\}|(\d)))?",
    re.ASCII,
)
_FRACTION = re.compile(
    r"([+-]?)(?:(\d+) ?)??(?:\\frac(?:\{([+-]?\d+)\}|(\d))(?:\{(\d+)\}|(\d))|(\d+)/(\d+))",
    re.ASCII,
)


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
    bare, places = form.removesuffix("%").rstrip(), ""
    if decimal := _DECIMAL.fullmatch(bare):
        sign, whole, places, period, *exponents = decimal.groups("")
        value = Fraction(f"{re.sub('[, ]', '', whole) or 0}.{places or 0}")
        if period:
            value += Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(places))
        exponent = "".join(exponents)
        value *= Fraction(10) ** int(exponent or 0)
        places = "" if period or exponent else places
    elif fraction := _FRACTION.fullmatch(bare):
        sign, whole, *parts = fraction.groups("")
        numerator, denominator = (int(part) for part in parts if part)
        if denominator == 0 or (whole and not 0 <= numerator < denominator):
            return None
        value = int(whole or 0) + Fraction(numerator, denominator)
    else:
        return None
    return Number(-value if sign == "-" else value, len(places), form.endswith("%"))


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
