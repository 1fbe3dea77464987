r"""Exact values: ratios of polynomials in letters, pi and square roots, with rational coefficients.

The square roots of different squarefree integers (negative ones too, with `\sqrt{-1} = i`) are
linearly independent over the rational numbers, and pi is transcendental: values are equal just if
their cross products are equal term by term. Whatever would take long raises [`GiveUp`].
"""

from fractions import Fraction
from itertools import product as pairs
from math import gcd
from typing import NamedTuple

PI = "\N{GREEK SMALL LETTER PI}"

Monomial = tuple[int, tuple[tuple[str, int], ...]]
"""The squarefree integer under a root; letters and pi in their order, with their exponents."""
Polynomial = dict[Monomial, Fraction]
"""Coefficients, none of them 0."""

_UNIT: Monomial = (1, ())
_ONE: Polynomial = {_UNIT: Fraction(1)}

_MAX_EXPONENT = 1000
_MAX_TERMS = 200
_MAX_PRODUCTS = 1000
_MAX_BITS = 1000
_MAX_RADICAND = 1_000_000


class GiveUp(Exception):
    """The value is not known here, or would take long."""


class Ratio(NamedTuple):
    """A value: one polynomial over another."""

    above: Polynomial
    below: Polynomial


def constant(value: Fraction | int) -> Ratio:
    """Return a number."""
    return _ratio({_UNIT: Fraction(value)} if value else {}, _ONE)


def symbol(name: str) -> Ratio:
    """Return a letter or pi."""
    return Ratio({(1, ((name, 1),)): Fraction(1)}, _ONE)


def square_root(value: Ratio) -> Ratio:
    """Return the square root of a rational number; a negative one has an imaginary root."""
    number = as_number(value)
    if number is None or abs(number.numerator) * number.denominator > _MAX_RADICAND:
        raise GiveUp
    # The root of n/d is that of n d, over d.
    outside, inside = Fraction(1, number.denominator), number.numerator * number.denominator
    factor = 2
    while factor * factor <= abs(inside):
        if inside % (factor * factor):
            factor += 1
        else:
            outside, inside = outside * factor, inside // (factor * factor)
    return Ratio({(inside, ()): outside} if inside else {}, _ONE)


def total(a: Ratio, b: Ratio) -> Ratio:
    """Return a + b."""
    if a.below == b.below:
        return _ratio(_plus(a.above, b.above), a.below)
    above = _plus(_times(a.above, b.below), _times(b.above, a.below))
    return _ratio(above, _times(a.below, b.below))


def product(a: Ratio, b: Ratio) -> Ratio:
    """Return a b."""
    return _ratio(_times(a.above, b.above), _times(a.below, b.below))


def negative(a: Ratio) -> Ratio:
    """Return -a."""
    return Ratio({monomial: -number for monomial, number in a.above.items()}, a.below)


def inverse(a: Ratio) -> Ratio:
    """Return 1/a."""
    return _ratio(a.below, a.above)


def power(base: Ratio, exponent: Ratio) -> Ratio:
    """Return the base to the power of a small integer; 0^0 is not known."""
    number = as_number(exponent)
    if number is None or number.denominator != 1 or abs(number) > _MAX_EXPONENT:
        raise GiveUp
    if not number and not base.above:
        raise GiveUp
    base, result = inverse(base) if number < 0 else base, constant(1)
    for bit in f"{abs(number.numerator):b}":
        result = product(result, result)
        if bit == "1":
            result = product(result, base)
    return result


def equal(a: Ratio, b: Ratio) -> bool:
    """Return whether two values are the same."""
    if a.below == b.below:
        return a.above == b.above
    return _times(a.above, b.below) == _times(b.above, a.below)


def as_number(value: Ratio) -> Fraction | None:
    """Return a rational number as such, None for all else."""
    if value.below != _ONE or value.above.keys() - {_UNIT}:
        return None
    return value.above.get(_UNIT, Fraction(0))


def are_different_lines(a: Ratio, b: Ratio) -> bool:
    """Return whether both are at most linear and have different zeros for sure."""
    if a.below != _ONE or b.below != _ONE or not all(map(_is_linear, (a.above, b.above))):
        return False
    if a.above.keys() != b.above.keys():
        return True
    return len({number / b.above[monomial] for monomial, number in a.above.items()}) > 1


def _is_linear(polynomial: Polynomial) -> bool:
    """Whether it has rational coefficients and no products of letters."""
    degrees = {
        sum(exponent for _, exponent in letters) if root == 1 and PI not in dict(letters) else 2
        for root, letters in polynomial
    }
    return degrees <= {0, 1}


def _ratio(above: Polynomial, below: Polynomial) -> Ratio:
    """Over 1, if that can be: most values stay polynomials."""
    if not below:
        raise GiveUp
    if not above:
        return Ratio(above, _ONE)
    if below.keys() == {_UNIT} and below != _ONE:
        above = _times(above, {_UNIT: 1 / below[_UNIT]})
        below = _ONE
    for polynomial in (above, below):
        if len(polynomial) > _MAX_TERMS or any(map(_is_long, polynomial.values())):
            raise GiveUp
    return Ratio(above, below)


def _is_long(number: Fraction) -> bool:
    return max(number.numerator.bit_length(), number.denominator.bit_length()) > _MAX_BITS


def _plus(a: Polynomial, b: Polynomial) -> Polynomial:
    found = dict(a)
    for monomial, number in b.items():
        found[monomial] = found.get(monomial, 0) + number
    return {monomial: number for monomial, number in found.items() if number}


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    if len(a) * len(b) > _MAX_PRODUCTS:
        raise GiveUp
    found: Polynomial = {}
    for (one, x), (other, y) in pairs(a.items(), b.items()):
        factor, monomial = _times_monomial(one, other)
        found[monomial] = found.get(monomial, 0) + factor * x * y
    return {monomial: number for monomial, number in found.items() if number}


def _times_monomial(a: Monomial, b: Monomial) -> tuple[int, Monomial]:
    """Return an integer and a monomial: two roots have their common divisor before the root."""
    common = gcd(a[0], b[0])
    root = a[0] * b[0] // common**2
    exponents = dict(a[1])
    for name, exponent in b[1]:
        exponents[name] = exponents.get(name, 0) + exponent
    factor = -common if a[0] < 0 and b[0] < 0 else common  # i^2 = -1
    return factor, (root, tuple(sorted(exponents.items())))
