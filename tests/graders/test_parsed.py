"""What a parser makes of two answers, in the process that compares."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.graders.numbers import Tolerance
from barl_trl.graders.processes import compare


def is_equal(gold: str, answer: str) -> bool:
    outcome = compare(gold, answer)
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
        (r"\infty", r"\infty"),
        (r"(1,\infty)", "x>1"),
        (r"(-\infty,1)\cup(3,\infty)", r"x<1 \text{ or } x>3"),
        (r"(-\infty,2)\cup(2,3)\cup(3,\infty)", r"x\ne 3, x\ne 2"),
        (r"x>0, x\ne 1", r"(0,1)\cup(1,\infty)"),
        (r"\binom{5}{2}", "10"),  # C(5, 3) too
        ("[1,5]", r"[1,3]\cup[2,5]"),
        ("x_1+x_2", "x_2+x_1"),  # indices are no numbers
        ("I^2R", "RI^2"),  # I is a letter
        (r"x=\frac{1\pm\sqrt{5}}{2}", r"x=\frac{1+\sqrt{5}}{2}, x=\frac{1-\sqrt{5}}{2}"),
        (r"\{1\mp2\}", r"\frac{2\pm4}{2}"),
        (r"(0,1)\cup(1,\infty)", r"(0,\infty)\setminus\{1\}"),
        (r"\begin{pmatrix}-2\\5\end{pmatrix}", "(-2,5)"),
        ("(1,2,3)", r"\begin{pmatrix}1&2&3\end{pmatrix}"),
        # at second look
        ("(1+i)^2", "2i"),
        ("y=2x+3", "2x-y+3=0"),
        (r"\frac{x}{2}+\frac{y}{3}=1", "3x+2y=6"),
        ("1<x<2", "2>x>1"),
        (r"\log_2 8=3", r"3=\log_2 8"),
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
        (r"x\ne 2, x\ne 3", r"x\ne 5, x\ne 6"),
        (r"x>0, x\ne 1", r"\mathbb{R}"),
        ("7", r"\max(\infty,3)"),  # sympy finds no difference to infinity
        (r"\infty", r"x+\infty"),
        (r"\{10^{-7},1\}", r"\{0.0,1\}"),
        (r"\begin{pmatrix}10^{-7}\\1\end{pmatrix}", r"\begin{pmatrix}0.0\\1\end{pmatrix}"),
        ("1", "?"),
        ("-2,2", "-2<x<2"),  # an inequality is no list
        ("-2,2", "x^2<4"),
        (r"\frac{1\pm\sqrt{5}}{2}", r"\frac{1+\sqrt{5}}{2}"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\{1,2\}"),  # no order
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}"),
        (r"\log_2 8=3", "0=0"),  # identities say nothing
        ("a^2-b^2=(a-b)(a+b)", "a^2-b^2=a^2-b^2"),
    ],
)
def test_what_does_not(gold, answer):
    assert not is_equal(gold, answer)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("5", r"6 \foo 5"),
        ("5", "6=5"),
        ("5", "43=5,"),
        ("40", r"40, 50\text{ hard}"),
        ("3", "3 250 1"),
        ("0", "0_1"),
        ("42", r"\begin{array}{c}41\\42\end{array}"),
        ("y=t(1,1)^T", "y=t(2,1)^T"),
        ("10^{20}", "10^{20}+1.0"),
        (r"4\text{ red}, 5\text{ blue}", r"4\text{ red}, 6\text{ blue}"),
    ],
)
def test_a_number_that_the_parser_has_not_read_is_found(gold, answer):
    """It could be any other, and the answer would still match."""
    assert not is_equal(gold, answer)
    assert not is_equal(answer, gold)


@given(st.integers(2, 9), st.integers(20, 60))
@settings(max_examples=8)
def test_small_powers_are_compared_exactly_though_math_verify_rounds(base, exponent):
    power = f"{base}^{{-{exponent}}}"
    assert is_equal(power, rf"\frac{{1}}{{{base}^{{{exponent}}}}}")
    assert not is_equal(power, f"{base}^{{-{exponent + 1}}}")
    assert not is_equal(power, "0")


@given(st.integers(1, 99))
@settings(max_examples=8)
def test_numbers_may_differ_within_a_tolerance(n):
    value, near = f"{n}\\sqrt{{2}}", Tolerance(1e-6, 1e-4)
    assert compare(value, f"{n * 2**0.5:.6f}", near) == "equal"
    assert compare(value, f"{n * 2**0.5 + 1e-5:.6f}", near) == "different"
    assert compare(value, f"{n * 2**0.5:.6f}") == "different"


@pytest.mark.parametrize("gold", [r"\frac{1}{2}", "x=1", r"\{1,2\}", "1<x<2"])
def test_what_can_be_read_is_equal_to_itself(gold):
    assert compare(gold, gold) == "equal"


@pytest.mark.parametrize("gold", ["!?", "", r"6 \foo 5", r"1,2,\ldots", "f'(x)", "3:2:1"])
def test_what_is_not_read_whole_is_equal_to_nothing(gold):
    assert compare(gold, gold) == "different"
