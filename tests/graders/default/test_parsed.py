"""What math-verify makes of two answers, in the process that compares."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.graders.processes import compare


def is_equal(gold: str, answer: str) -> bool:
    outcome = compare("math_verify", gold, answer)
    assert outcome in ("equal", "different")
    return outcome == "equal"


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"\log_2 8", "3"),
        (r"3\pi", r"\pi \cdot 3"),
        ("x=5", "5"),
        (r"\{1,2\}", r"\{2,1\}"),
        (r"\sin^2 x+\cos^2 x", "1"),
        (r"5\text{ apples}", "5"),  # nouns are not read
        ("50", "50%"),
        (r"\infty", r"\infty"),
        (r"(1,\infty)", r"(1,+\infty)"),
        # at second look
        ("(1+i)^2", "2i"),
        ("y=2x+3", "2x-y+3=0"),
        ("1<x<2", "2>x>1"),
    ],
)
def test_what_means_the_same(gold, answer):
    assert is_equal(gold, answer)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"3\pi", "3"),  # all of it is read, and not its last number
        ("2ab", "2bc"),  # no letter is a unit
        ("2+3i", "2-3i"),
        ("y=2x+3", "2x-y-3=0"),
        ("x>1", r"x \ge 1"),
        ("7", r"\max(\infty,3)"),  # sympy finds no difference to infinity
        (r"\infty", r"x+\infty"),
        (r"\{10^{-7},1\}", r"\{0.0,1\}"),
        (r"\begin{pmatrix}10^{-7}\\1\end{pmatrix}", r"\begin{pmatrix}0.0\\1\end{pmatrix}"),
        ("1", "?"),
    ],
)
def test_what_does_not(gold, answer):
    assert not is_equal(gold, answer)


@given(st.integers(2, 9), st.integers(20, 60))
@settings(max_examples=8, deadline=None)
def test_small_powers_are_compared_exactly_though_math_verify_rounds(base, exponent):
    power = f"{base}^{{-{exponent}}}"
    assert is_equal(power, rf"\frac{{1}}{{{base}^{{{exponent}}}}}")
    assert not is_equal(power, f"{base}^{{-{exponent + 1}}}")
    assert not is_equal(power, "0")


@given(st.integers(1, 99))
@settings(max_examples=8, deadline=None)
def test_a_decimal_may_be_rounded_at_its_sixth_digit(n):
    value = f"{n}\\sqrt{{2}}"
    assert is_equal(value, f"{n * 2**0.5:.8f}")
    assert not is_equal(value, f"{n * 2**0.5 * 1.0001:.8f}")


@pytest.mark.parametrize(
    ("gold", "outcome"),
    [(r"\frac{1}{2}", "equal"), ("x=1", "equal"), ("!?", "different"), ("", "different")],
)
def test_an_answer_that_stays_a_string_is_not_readable(gold, outcome):
    assert compare("readable", gold, "") == outcome
