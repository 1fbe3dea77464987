"""What the strings say against an answer that a parser takes for the true one."""

import pytest

from barl_trl.graders.default.doubts import chain, doubt


@pytest.mark.parametrize(
    ("gold", "answer", "reason"),
    [
        ("1", r"1 \text{ or } 2", "alternatives"),
        ("1", "1 or 2", "alternatives"),
        ("1", r"\pm 1", "alternatives"),
        ("10_2", "10_3", "base"),
        ("10_{2}", "10_{16}", "base"),
        (r"10\text{ kg}", r"10\text{ cm}", "units"),
        (r"10\text{ cm}^2", r"10\text{ cm}^3", "units"),
        ("40", r"40\text{ red}, 50\text{ blue}", "numbers"),
        (r"3\text{ hours }20\text{ minutes}", "3", "numbers"),
        (r"4\text{ red}, 5\text{ blue}", r"4\text{ red}, 6\text{ blue}", "numbers"),
        ("2", r"\begin{array}{l}x=1\\y=2\end{array}", "rows"),
        (r"\{1,2\}", "(1,2)", "brackets"),
        (r"\{1,2\}", r"\{1,2,\ldots\}", "dots"),
        ("253", "3 250 1", "digits apart"),
        ("x^2", "X^2", "capitals"),
        ("x^2", "y^2", "variables"),
        ("2ab", "2bc", "variables"),
        ("5", r"6 \foo 5", "commands"),
        ("5", "6 $5$", "commands"),
        ("f''(x)", "f'(x)", "marks"),
        ("3:2:1", "3:2", "marks"),
        ("5", r"5\text{ million}", "words"),
        ("5", r"5\text{6}", "words"),
    ],
)
def test_an_answer_is_doubted(gold, answer, reason):
    assert doubt(gold, answer) == reason


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("1, 2", r"x=1 \text{ or } x=2"),
        (r"\pm 2", r"2 \text{ or } -2"),
        ("5", "101_2"),
        (r"10\text{ kg}", r"10\text{ kilograms}"),
        (r"10\text{ cm}^2", r"10\text{ square centimeters}"),
        ("10", r"10\text{ cm}"),
        ("125", r"\text{It is }125\text{ miles}"),
        ("19, 46, 82", r"19, 46, \text{ and } 82"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix}1\\2\end{bmatrix}"),
        (r"\log_2 8", "3"),
        ("x>1", r"(1,\infty)"),
        ("2x+1", "y=2x+1"),
    ],
)
def test_ordinary_differences_are_left_to_the_parser(gold, answer):
    assert doubt(gold, answer) is None


@pytest.mark.parametrize(
    ("gold", "answer", "claims"),
    [
        ("6", "5=6", ["5", "6"]),
        ("42", "x=1=2=42", ["1", "2", "42"]),
        ("2", r"\frac{6}{3}=2", [r"\frac{6}{3}", "2"]),
        ("24", r"\text{Area}=24", ["24"]),
        ("30", r"\theta=30", ["30"]),
        ("3", r"\pi=3", [r"\pi", "3"]),
        ("2x", "f(x)=2x", ["2x"]),
        ("2", r"17 \bmod 5=2", ["2"]),
        ("x=7", "x=10-3=7", ["10-3", "7"]),
        ("5", "a+b=5", ["5"]),
        ("5", "f(2)=5", ["5"]),
        ("5", "6x=5", ["6x", "5"]),
        ("5", "-x=5", ["-x", "5"]),
    ],
)
def test_each_side_of_a_chain_is_a_claim_but_for_its_name(gold, answer, claims):
    assert chain(gold, answer) == claims


@pytest.mark.parametrize(
    ("gold", "answer"),
    [("6", "6"), ("x=6", "x=7"), ("1, 2", "x=1, x=2"), ("5", r"x \leq 5"), ("5", "x>=5")],
)
def test_no_chain(gold, answer):
    assert chain(gold, answer) == []
