"""What a parser and sympy make of two answers, in the process that compares."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.graders.processes import compare


def is_equal(gold: str, answer: str) -> bool:
    outcome = compare("qwen", gold, answer)
    assert outcome in ("equal", "different")
    return outcome == "equal"


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("x^2-1", "(x+1)(x-1)"),
        (r"\sin(2x)", r"2\sin x\cos x"),
        (r"\{1,2\}", r"\{2,1\}"),
        ("x>2", "2<x"),
        (r"\infty", r"\infty"),
        (r"\{0.5,\sqrt{4}\}", r"\{2,\frac{1}{2}\}"),
        (r"\sqrt{x}", "x^{1/2}"),
    ],
)
def test_what_is_equal(gold, answer):
    assert is_equal(gold, answer)
    assert is_equal(answer, gold)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("x^2", "x^3"),
        (r"\{1,2\}", r"\{1,3\}"),
        (r"\{1,2\}", r"\{1,2,3\}"),
        ("x>2", r"x\ge 2"),
        (r"\infty", r"-\infty"),
        (r"\infty", "5"),
        (r"\frac{1}{0}", r"\frac{2}{0}"),
        (r"\frac{", "1"),  # cannot be read
    ],
)
def test_what_is_not(gold, answer):
    assert not is_equal(gold, answer)
    assert not is_equal(answer, gold)


@given(st.integers(1, 999), st.sampled_from([-1, 1]))
@settings(max_examples=8)
def test_numbers_are_equal_to_a_relative_1e_4(n, sign):
    root = f"{sign * n}\\sqrt{{2}}"
    assert is_equal(root, f"{sign * n * 2**0.5 * 1.00009:.8f}")
    assert not is_equal(root, f"{sign * n * 2**0.5 * 1.00012:.8f}")


def test_entries_of_a_matrix_may_also_be_rounded_to_three_decimals():
    matrix = r"\begin{pmatrix}%s\\2\end{pmatrix}"
    assert is_equal(matrix % "0.29", matrix % "0.2904")
    assert not is_equal(matrix % "0.29", matrix % "0.291")
    assert not is_equal("0.29", "0.2904")


@given(*[st.integers(1, 9)] * 4)
@settings(max_examples=8)
def test_equations_are_equal_whatever_the_side_but_not_their_multiples(a, b, c, factor):
    equation = f"{a}x+{b}y={c}"
    assert is_equal(equation, f"{c}={b}y+{a}x")
    assert is_equal(equation, f"{a}x-{c}=-{b}y")
    assert not is_equal(equation, f"{a}x+{b}y={c + factor}")
    assert not is_equal(equation, f"{a * (factor + 1)}x+{b * (factor + 1)}y={c * (factor + 1)}")
