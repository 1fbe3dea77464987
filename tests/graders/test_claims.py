"""What an answer claims: sides of chains without their names."""

import pytest

from barl_trl.graders.default import claims


@pytest.mark.parametrize(
    ("gold", "answer", "claimed"),
    [
        ("6", "6", ["6"]),
        ("6", "5=6", ["5", "6"]),
        ("42", "x=1=2=42", ["1", "2", "42"]),
        ("2", r"\frac{6}{3}=2", [r"\frac{6}{3}", "2"]),
        ("24", r"\text{Area}=24", ["24"]),
        ("30", r"\theta=30", ["30"]),
        ("3", r"\pi=3", [r"\pi", "3"]),
        ("2x", "f(x)=2x", ["2x"]),
        ("2", r"17 \bmod 5=2", ["2"]),
        ("3", r"\int_0^1 9x^2 dx=3", ["3"]),
        ("5", "a+b=5", ["5"]),
        ("5", "6x=5", ["6x", "5"]),
        ("5", "-x=5", ["-x", "5"]),
        ("1, 2", "x=1, x=2", ["x=1, x=2"]),
        ("5", r"x \leq 5", [r"x \leq 5"]),
        ("5", "x>=5", ["x>=5"]),
        ("(1,2)", "(x,y)=(1,2)", ["(1,2)"]),
        ("(1,2)", "(y,x)=(1,2)", ["(y,x)", "(1,2)"]),
        ("(1,2)", r"x\in (1,2)", [r"x\in (1,2)"]),
        (r"\sqrt{2}", r"\sqrt{2}\approx 1.41", [r"\sqrt{2}", "1.41"]),
        ("5", r"x\approx 5", ["5"]),
        ("6", "6=6", ["6", "6"]),
        ("6", "6=6=6", ["6", "6", "6"]),
    ],
)
def test_each_side_of_a_chain_is_a_claim_but_for_its_name(gold, answer, claimed):
    assert claims(gold, answer) == (gold, claimed)


@pytest.mark.parametrize(
    ("gold", "answer", "value", "claimed"),
    [
        ("x=7", "x=10-3=7", "7", ["10-3", "7"]),
        ("x=7", "7", "7", ["7"]),
        ("x=7", "7=7", "7", ["7", "7"]),
        ("x=7", "10-3=7", "7", ["10-3", "7"]),
        ("x=7", "10-3=8", "7", ["10-3", "8"]),
        (r"x=\frac{7}{2}", r"\frac{7}{2}=3.5", r"\frac{7}{2}", [r"\frac{7}{2}", "3.5"]),
        (r"\sqrt{2} \approx 1.41", r"2^{1/2}", r"\sqrt{2}", [r"2^{1/2}"]),
        (r"\frac{dy}{dx}=2x", r"\frac{dy}{dx}=3x", "2x", ["3x"]),
        # one number in several forms
        (r"x=\frac{12}{5}=2.4", "2.4", r"\frac{12}{5}", ["2.4"]),
        (r"x=\frac{12}{5}=2.4", "x=2.4=2.5", r"\frac{12}{5}", ["2.4", "2.5"]),
        (r"75%=\frac34", "x=0.75", "75%", ["0.75"]),
        (r"\frac{5}{2}\text{cm}=2.5\text{cm}", "2.5", r"\frac{5}{2}\text{cm}", ["2.5"]),
    ],
)
def test_the_name_of_the_true_answer_is_no_part_of_its_value(gold, answer, value, claimed):
    assert claims(gold, answer) == (value, claimed)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("x=6", "y=6"),
        (r"\lambda=6", r"\mu=6"),
        (r"\lambda=6", r"6=\lambda"),
        ("f(x)", "f(y)"),
        ("x+y=6", "6=y+x"),
        ("2x+1=5", "x=2"),
        (r"\frac{3}{4}=0.7", "0.7"),
        (r"\log_2 8=3", "3"),
        ("0=0", "0"),
        (r"1\text{km}=1000\text{m}", "1000"),
        (r"\frac{x}{2}=0.5x", "0.5x"),
        (r"\sin 2x=2\sin x\cos x", r"\sin 2x=\sin 2x"),
        (r"y\in[1,2]", r"x\in[1,2]"),
        ("y=2x", "f(x)=2x"),
    ],
)
def test_other_equations_are_compared_whole(gold, answer):
    assert claims(gold, answer) == (gold, [answer])


def test_a_number_in_two_forms_keeps_its_name():
    for answer in ("y=2.4", r"y=\frac{12}{5}=2.4"):
        assert claims(r"x=\frac{12}{5}=2.4", answer) == (r"x=\frac{12}{5}", [answer])
