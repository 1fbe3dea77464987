"""One form for what is surely the same."""

import time

import pytest
from hypothesis import given

from barl_trl.graders.normal_form import normal_form, words

from .hostile_texts import soup


@pytest.mark.parametrize(
    ("answer", "form"),
    [
        ("$x$", "x"),
        (r"\(x\)", "x"),
        (r"\[x\].", "x"),
        (r"$1$, $2$", "1, 2"),
        (r"\boxed{\boxed{42}}", "42"),
        (r"\framebox{\mathboxed{42}}", "42"),
        (r"6\boxed{5}", r"6\boxed{5}"),
        ("x.", "x"),
        (r"\left(1, 2\right)", "(1, 2)"),
        (r"\dfrac{1}{2}", r"\frac{1}{2}"),
        (r"\cfrac{1}{2}", r"\frac{1}{2}"),
        (r"\underline{5}", "{5}"),
        (r"\textbf{5}", "{5}"),
        (r"\color{red}5", "5"),
        (r"\vec{v}", "{v}"),
        ("10{,}000", "10000"),
        (r"10\,000", "10000"),
        ("10,000", "10,000"),  # perhaps a pair
        ("x + 1", "x+1"),
        ("1 1/2", "1 1/2"),  # one and a half
        (r"50\%", "50%"),
        ("50 percent", "50%"),
        (r"\$5", r"\text{dollar}5"),
        ("5 €", r"5\text{euro}"),
        ("5个", r"5\text{个}"),
        ("√2", r"\sqrt{2}"),
        ("x ∈ [1, ∞)", r"x\in[1,\infty)"),
        ("90°", r"90^\circ"),
        (r"\sin 30^\circ", r"\sin\frac{30\pi}{180}"),
        (r"x \\ y", r"x\\y"),  # a new row
        ("1.5e3", r"1.5\times 10^{3}"),
        (r"\{x | 1<x<2\}", "1<x<2"),
        (r"\{x\in\mathbb{R} \mid x\neq 2\}", r"x\neq 2"),
        (r"\text{6:00 AM}", r"6:00\text{AM}"),
        (r"\mathrm{sin}x", r"\sin x"),
        (r"\mathrm{sec}^{2}\,(x)", r"\sec^{2}(x)"),
        (r"\text{log}_2 3", r"\log_2 3"),
        (r"\mathrm{sec}", r"\sec"),
        (r"5\,\mathrm{sec}", r"5\text{sec}"),  # seconds
        (r"5\text{ sec} \approx 5.1", r"5\text{sec}\approx 5.1"),
        ("101_{2}", "101_2"),
        ("(101)_2", "101_2"),
        (r"\text{2A}_{16}", "2A_16"),
        (r"4\text{ to }7", "4:7"),
        (r"0.1666\ldots", r"0.1\overline{6}"),
        ("0.66\u2026", "0.66\u2026"),  # too few to see what repeats
        (r"\{k\pi \mid k \in \mathbb{Z}\}", r"k\pi, k\in\mathbb{Z}"),
        ("\uff08\uff11\uff0c\uff0d\uff12\uff09\u3002", "(1,-2)"),  # full width
        ("x⁴ + ¾", r"x^4+\frac{3}{4}"),
        ("\u0664\u0662", "42"),  # Arabic-Indic
        ("\u06f4\u066b\u06f5\u066a", "4.5%"),  # Persian
        ("\\frac{\u0967}{\u0968}", r"\frac{1}{2}"),  # Devanagari
        ("√(x + 1)", r"\sqrt{x+1}"),
        (r"\frac\pi4", r"\frac{\pi}4"),
        (r"0.1\bar{6}", r"0.1\overline{6}"),
        ("0.(3)", r"0.\overline{3}"),
        ("3 x 10^8", r"3\times 10^8"),
        (r"\sqrt[3]{-8}", r"(-\sqrt[3]{8})"),  # the real root
        ("[0; 1]", "[0, 1]"),
        ("= 5,", "5"),
        ("**17**", "17"),
        ("ln 2", r"\ln 2"),
        (r"x \equiv -1 \ (\text{mod } 7)", r"x\equiv 6\pmod{7}"),
        (r"x = 7k - 1, k \in \mathbb{Z}", r"x\equiv 6\pmod{7}"),
        # words that are signs
        (r"\text{No real solutions}", r"\emptyset"),
        (r"\text{all real numbers}", r"\mathbb{R}"),
        # units
        (r"9.8 \mathrm{~m} / \mathrm{s}^{2}", r"9.8\text{m/s}^{2}"),
        (r"40\,\frac{\text{km}}{\text{h}}", r"40\text{km/h}"),
        (r"5\,\mathrm{N \cdot m}", r"5\text{N m}"),
        (r"5\,\mathrm{m/s^{2}}", r"5\text{m/s^2}"),
        # code
        ("2**(1/4)", "2^{1/4}"),
        ("7*sin(pi*x/5)+1", r"7\cdot\sin(\pi\cdot x/5)+1"),
        ("sqrt(3+sqrt(2))/2", r"\sqrt{3+\sqrt{2}}/2"),
    ],
)
def test_differences_without_a_meaning_are_undone(answer, form):
    assert normal_form(answer) == form


@given(soup)
def test_a_frame_and_spaces_around_an_answer_do_not_matter(answer):
    if "$" not in answer and answer.strip():
        assert normal_form(f" {answer.strip()} ") == normal_form(answer)


def test_of_a_very_long_answer_spaces_alone_are_changed():
    assert normal_form("$x$ " * 2000) == " ".join(["$x$"] * 2000)


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (r"\text{Evelyn}", "evelyn"),
        ("New  York", "new york"),
        ("an ellipse", "ellipse"),
        ("Ellipses", "ellipse"),
        (r"{\rm odd}", "odd"),
        (r"\text{ab}", "ab"),
        ("No", "no"),
        ("Yes and no", "yes and no"),
        ("ab", None),  # a times b
        ("x+y", None),
        ("42", None),
        (r"\text{4 apples}", None),
    ],
)
def test_words_are_told_from_products(answer, content):
    assert words(answer) == content


@pytest.mark.parametrize(
    "hostile",
    [
        r"\{x|" * 500 + r"\le" * 660,
        *(
            piece * (4000 // len(piece))
            for piece in (r"\{x|", r"\le", r"\text{", "√(", "[a,", "0.1")
        ),
        r"\{" + "a" * 1000 + "|" * 1000,
        "$" + "a" * 4000,
        "**" * 2000,
    ],
)
def test_the_form_of_a_hostile_text_takes_no_seconds(hostile):
    """It took 2.4 s, and eight times as long for twice as much."""
    for size in (1000, 2000, 4000, 100_000):
        start = time.process_time()
        normal_form((hostile * (1 + size // len(hostile)))[:size])
        assert time.process_time() - start < 1
