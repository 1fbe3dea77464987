"""Exact values, against what is known of them and Python's own numbers."""

from fractions import Fraction
from functools import reduce
from math import isqrt, prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.graders.default.polynomials import (
    PI,
    GiveUp,
    Ratio,
    are_different_lines,
    as_number,
    constant,
    equal,
    inverse,
    negative,
    power,
    product,
    square_root,
    symbol,
    total,
)

X, Y = symbol("x"), symbol("y")


def root(n: int) -> Ratio:
    return square_root(constant(n))


def sum_of(*values: Ratio) -> Ratio:
    return reduce(total, values)


@given(st.fractions(max_denominator=99), st.fractions(max_denominator=99))
@settings(deadline=None)
def test_numbers_are_calculated_as_fractions(a, b):
    one, other = constant(a), constant(b)
    assert as_number(total(one, other)) == a + b
    assert as_number(product(one, other)) == a * b
    assert as_number(negative(one)) == -a
    assert as_number(power(one, constant(3))) == a**3
    if a:
        assert as_number(inverse(one)) == 1 / a
        assert as_number(power(one, constant(-2))) == a**-2


@given(st.integers(0, 1000), st.integers(1, 1000))
@settings(deadline=None)
def test_a_square_root_squares_to_its_number(n, d):
    value = square_root(constant(Fraction(n, d)))
    assert as_number(product(value, value)) == Fraction(n, d)
    assert (as_number(value) is not None) == (isqrt(n * d) ** 2 == n * d)


@given(st.integers(2, 300), st.integers(2, 300))
@settings(deadline=None)
def test_square_roots_are_equal_just_if_their_numbers_are(m, n):
    assert equal(root(m), root(n)) == (m == n)
    assert equal(product(root(m), root(n)), root(m * n))
    has_integer_ratio = isqrt(m * n) ** 2 == m * n
    assert (as_number(product(root(m), root(n))) is not None) == has_integer_ratio


def test_negative_numbers_have_imaginary_roots():
    i = root(-1)
    assert as_number(product(i, i)) == -1
    assert as_number(power(i, constant(4))) == 1
    assert equal(root(-12), product(constant(2), product(i, root(3))))
    assert as_number(product(root(-2), root(-3))) is None
    assert equal(product(root(-2), root(-3)), negative(root(6)))


def test_sums_of_roots_are_exact():
    one, other = sum_of(root(30), root(31), root(43)), sum_of(root(14), root(39), root(58))
    assert not equal(one, other), "they differ by 3e-8"
    power_of_sum = power(total(constant(1), root(2)), constant(5))
    assert equal(power_of_sum, total(constant(41), product(constant(29), root(2))))


def test_ratios_are_equal_by_their_cross_products():
    difference = total(product(X, X), negative(product(Y, Y)))
    quotient = product(difference, inverse(total(X, Y)))
    assert equal(quotient, total(X, negative(Y)))
    assert not equal(quotient, total(X, Y))
    assert equal(inverse(root(2)), product(root(2), constant(Fraction(1, 2))))
    assert not equal(symbol(PI), constant(Fraction(355, 113)))


@pytest.mark.parametrize(
    "undefined",
    [
        lambda: inverse(constant(0)),
        lambda: inverse(total(X, negative(X))),
        lambda: power(constant(0), constant(0)),
        lambda: power(constant(0), constant(-1)),
        lambda: power(X, Y),
        lambda: power(X, constant(Fraction(1, 2))),
        lambda: square_root(X),
        lambda: square_root(symbol(PI)),
    ],
)
def test_what_is_no_ratio_of_polynomials_is_given_up(undefined):
    with pytest.raises(GiveUp):
        undefined()


@pytest.mark.parametrize(
    "long",
    [
        lambda: power(constant(9), constant(1000)),
        lambda: power(X, constant(1001)),
        lambda: power(total(X, constant(1)), constant(300)),
        lambda: power(sum_of(X, Y, constant(1)), constant(60)),
        lambda: square_root(constant(10**6 + 1)),
        lambda: power(constant(Fraction(1, 7)), constant(500)),
        lambda: product(*[power(total(X, constant(1)), constant(39))] * 2),
        lambda: sum_of(*(symbol(f"x{n}") for n in range(201))),
    ],
)
def test_what_would_take_long_is_given_up(long):
    with pytest.raises(GiveUp):
        long()


def test_lines_with_different_zeros():
    line = sum_of(X, product(constant(2), Y), constant(-3))
    assert are_different_lines(line, total(line, constant(1)))
    assert are_different_lines(line, total(line, X))
    assert not are_different_lines(line, product(constant(-2), line))
    square = product(line, line)
    assert not are_different_lines(line, square), "the same zeros"
    assert not are_different_lines(constant(1), constant(2)), "no zeros"
    assert not are_different_lines(line, product(line, root(2)))
    assert not are_different_lines(line, product(line, inverse(X)))
    without_zeros = [product(value, inverse(value)) for value in (X, Y)]
    assert not are_different_lines(*without_zeros)


def test_a_product_over_many_primes_stays_exact():
    primes = [2, 3, 5, 7, 11, 13]
    assert equal(reduce(product, map(root, primes)), root(prod(primes)))
