"""Plain numbers, read without a parser, against Python's own fractions."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.graders.numbers import Tolerance, number


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("42", 42),
        ("+42", 42),
        ("-42", -42),
        ("042", 42),
        ("1,000", 1000),
        ("1 000 000", 10**6),
        ("1,000.5", Fraction(2001, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("3/4", Fraction(3, 4)),
        ("-3/4", Fraction(-3, 4)),
        (r"\frac{3}{4}", Fraction(3, 4)),
        (r"-\frac{-3}{4}", Fraction(3, 4)),
        (r"\frac34", Fraction(3, 4)),
        (r"\frac3{4}", Fraction(3, 4)),
        (r"\frac{3}4", Fraction(3, 4)),
        (r"1\frac{1}{2}", Fraction(3, 2)),
        (r"-1 \frac12", Fraction(-3, 2)),
        ("1 1/2", Fraction(3, 2)),
        (r"0.\overline{3}", Fraction(1, 3)),
        (r"-0.1\overline{6}", Fraction(-1, 6)),
        (r"3.5 \times 10^5", 350_000),
        (r"2 \cdot 10^{-3}", Fraction(1, 500)),
    ],
)
def test_a_plain_number_is_read_exactly(form, value):
    assert number(form) == value


@pytest.mark.parametrize(
    "form",
    [
        *("", "x", "1,2", "1,00", "12,34,567", "3 250 1", "1 2", "1/0", r"\frac{1}{0}", "1/2/3"),
        *(r"1\frac{3}{2}", "--1", "1e5", "½", "٣", r"\frac{1}{2}x", "0,25", "10^{5}"),
    ],
)
def test_anything_else_is_no_plain_number(form):
    assert number(form) is None


@given(st.fractions(max_denominator=999))
@settings(deadline=None)
def test_every_fraction_is_read_in_each_way_of_writing_it(value):
    sign, size = "-" if value < 0 else "", abs(value)
    whole, rest = divmod(size.numerator, size.denominator)
    forms = [
        f"{value.numerator}/{value.denominator}",
        f"{sign}\\frac{{{size.numerator}}}{{{size.denominator}}}",
    ]
    if whole and rest:
        forms.append(f"{sign}{whole}\\frac{{{rest}}}{{{size.denominator}}}")
    assert {number(form) for form in forms} == {value}


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4))
@settings(deadline=None)
def test_every_decimal_is_read_exactly(value):
    form = format(value, "f")
    assert number(form) == Fraction(value)


@pytest.mark.parametrize(
    ("gold", "answer", "equal"),
    [
        ("1/2", "0.5", True),
        ("1/3", "0.333333", True),
        ("1/3", "0.33333", False),
        ("0.333333", "1/3", True),
        ("2", "2.0", True),
        ("1/3", "333333/1000000", False),
        ("0.0000001", "0.0", False),
        ("0.0000001", "0.000000", False),
        ("3.14159265", "3.141593", True),
        ("3.141593", "3.141594", False),
        ("42", "42.0000001", False),
        ("42", "42.000000", True),
        ("2/3", "0.666666", True),  # cut off
        ("2/3", "0.666665", False),
        ("0", "0.0000001", False),
        ("1234567.1", "1234567.2", False),
        ("16386.20", "16,386.2", True),
        ("50%", "1/2", True),
        ("1/3", r"33\frac{1}{3}%", True),
        ("50%", "50", True),
        ("50", "50%", True),
        ("50", "1/2", False),
        ("0.5%", "1/2", False),
        ("50%", "0.5%", False),
    ],
)
def test_only_decimals_of_six_places_may_be_rounded(gold, answer, equal):
    assert Tolerance.of(gold, answer).allows(number(gold), number(answer)) is equal


@pytest.mark.parametrize(
    ("gold", "answer", "equal"),
    [
        ("22/7", "3.17", True),  # within 1 %
        ("22/7", "3.18", False),
        ("3.14", "22/7", True),  # within one in the last place
        ("3.13", "22/7", False),
        ("3", "3.01", False),  # an integer has no places to round
        ("0.0228", "0.02", False),  # nor is one decimal the other
    ],
)
def test_beside_a_formula_and_an_approximate_sign_any_decimal_may_be(gold, answer, equal):
    near = Tolerance.of(gold, answer, is_rounded=True)
    assert near.allows(number(gold), number(answer)) is equal


def test_computed_numbers_are_equal_to_an_exactness():
    assert Tolerance().allows(1.0, 1.0 + 1e-12, 1e-10)
    assert Tolerance().allows(0.0, 1e-12, 1e-10)
    assert not Tolerance().allows(1.0, 1.0 + 1e-9, 1e-10)
