"""Plain numbers as exact fractions, without a parser, and how far numbers may differ."""

import math
import re
from fractions import Fraction
from typing import Any, NamedTuple

_ROUNDED = re.compile(r"-?[\d,]*\.(\d+)")
_DECIMAL = re.compile(
    r"([+-]?)(?=\.?\d|\.\\)([1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?: \d{3})+|\d*)"
    r"(?:\.(\d*)(?:\\overline\{(\d+)\})?)?(?: ?\\(?:times|cdot) ?10\^(?:\{([+-]?\d{1,3})\}|(\d)))?",
    re.ASCII,
)
_FRACTION = re.compile(
    r"([+-]?)(?:(\d+) ?)??(?:\\frac(?:\{([+-]?\d+)\}|(\d))(?:\{(\d+)\}|(\d))|(\d+)/(\d+))", re.ASCII
)


class Tolerance(NamedTuple):
    """How far a number may be from the true one: within both bounds. Equal numbers always may."""

    absolute: float = 0.0
    relative: float = 0.0
    is_percent: bool = False  # 50 may stand for 0.5, or for 50 %

    @classmethod
    def of(cls, gold: str, answer: str, *, is_rounded: bool = False) -> "Tolerance":
        r"""Let decimals of six or more places be rounded, others if `is_rounded` (`\approx`)."""
        is_percent = ("%" in gold) != ("%" in answer)
        places = [min(len(x), 12) for x in re.findall(r"\.(\d{6,})", f"{gold} {answer}")]
        true, other = _ROUNDED.fullmatch(gold), _ROUNDED.fullmatch(answer)
        if is_rounded and bool(true) != bool(other) and not gold.isdigit() and not answer.isdigit():
            if not true:
                return cls(math.inf, 0.01, is_percent)
            places = [len(true[1])]
        most = 0.9995 * 10.0 ** -min(places) if places else 0.0  # behind 12 places a float errs
        return cls(most, 1.0 if is_rounded else 1e-5, is_percent)

    def allows(self, gold: Any, answer: Any, exactness: Any = 0) -> bool:
        """Return whether a number may stand for the true one, computed to a relative exactness."""
        # 0.5 % is not 0.5
        scaled = [(gold, 100 * answer), (100 * gold, answer)] if self.is_percent else []
        return any(
            abs(x - y) <= max(exactness * (abs(x) or 1), min(self.absolute, self.relative * abs(x)))
            for x, y in [(gold, answer), *(pair for pair in scaled if abs(pair[0]) >= 1)]
        )


def number(form: str) -> Fraction | None:
    r"""Return the value of a form such as `-1,000.5`, `3/4`, `1\frac{1}{2}`, `1 1/2` or `5%`."""
    bare = form.removesuffix("%").rstrip() if len(form) <= 512 else ""  # Python's limit is 4300
    if decimal := _DECIMAL.fullmatch(bare):
        sign, whole, places, period, *exponents = decimal.groups("")
        value = Fraction(f"{re.sub('[, ]', '', whole) or 0}.{places or 0}")
        if period:
            value += Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(places))
        value *= Fraction(10) ** int("".join(exponents) or 0)
    elif fraction := _FRACTION.fullmatch(bare):
        sign, whole, *parts = fraction.groups("")
        numerator, denominator = (int(part) for part in parts if part)
        if denominator == 0 or (whole and not 0 <= numerator < denominator):
            return None
        value = int(whole or 0) + Fraction(numerator, denominator)
    else:
        return None
    return value * (-1 if sign == "-" else 1) / (100 if "%" in form else 1)
