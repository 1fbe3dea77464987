r"""The conventions of the Qwen2.5-Math evaluation, and where ours is stricter on purpose.

Each pair of `CONVENTIONS` is accepted by the evaluation's own code too, each of `STRICTER` is
accepted there and refused here, each of `MORE` the other way round. Real processes, no mocks.
"""

import time

import pytest
from hypothesis import given

from barl_trl.graders.qwen import extract_answer, verify

from .hostile_texts import MILLION, soup

# Extraction


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        # The first of these that occurs decides, whatever comes later in the text.
        (r"The final answer is $7$. I hope it is correct. \boxed{1}", "7"),
        (r"The answer is 1. \boxed{2} \boxed{7} The answer is 3.", "7"),
        ("final answer is 1. The answer is 2. So the answer is 7.", "7"),
        ("The final answer is 1, no: the final answer is 7", "7"),
        ("1, so 答案是 7\n\nwhich is 2 答案是 3", "7"),
        ("She has 3 eggs and sells -1,234.5 of them.", "-1234.5"),
    ],
)
def test_the_answer_is_looked_for_in_a_fixed_order(text, answer):
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{1 \boxed{7} 2}", "7"),  # the last to open, not the outermost
        (r"$\boxed 7$ apples", "7"),
        ("I boxed{7}", "7"),  # no backslash is asked for
        (r"\boxed{7", "7"),  # one that is never closed goes on to the end
        (r"\fbox{8} and 9", "9"),  # other boxes are none
    ],
)
def test_a_box_is_the_word_and_its_braces(text, answer):
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    "text", ["", "no number", r"\boxed{}", r"7 \boxed", "the answer is .", "²"]
)
def test_without_content_there_is_no_answer(text):
    assert extract_answer(text) is None


# Verdicts

CONVENTIONS = [
    # strings
    ("Yes", r"\text{yes}", "equal strings"),
    ("3", r"3\text{ apples}", "equal strings"),
    ("x=5", "y=5", "equal strings"),
    # multiple choice: the last letter
    ("B", "(B)", "choices"),
    ("B", "not (A) but (B)", "choices"),
    # numbers: 1e-4 of the true one (3.0003 - 3 = 3 * 1e-4), and percentages either way
    ("1,234", "1234.0", "numbers"),
    ("3", "3.0002", "numbers"),
    ("50", "0.5", "numbers"),
    ("0.5", r"50\%", "numbers"),
    # the kind of bracket does not matter
    ("(0,1)", "[0,1]", "equal strings"),
    (r"(-\infty,3]", r"(-\infty,3.0)", "equal strings"),
    ("(1,2)", "{1,2}", "parser"),
    (r"(0.5,\sqrt{4})", r"(\frac12,2)", "parser"),
    (r"(0,\frac{1}{2})\cup(1,2)", r"(0,0.5]\cup(1,2)", "parser"),
    (
        r"\begin{pmatrix}0.5&1\end{pmatrix}",
        r"\begin{bmatrix}\frac12&1\end{bmatrix}",
        "parser",
    ),
    # sets in any order
    (r"\{1,2\}", r"\{2,1\}", "parser"),
    # names
    ("5", "x = 5", "equal strings"),
    ("5", "AB=5", "equal strings"),
    ("x=1,y=2", "(1,2)", "equal strings"),
    # expressions and equations, also with the sides exchanged
    (r"\frac{2}{3}", "0.6667", "numbers"),
    ("x^2-1", "(x+1)(x-1)", "parser"),
    (r"\sin^2(x)", r"1-\cos^2(x)", "parser"),
    ("p+q=2r+1", "2r+1=q+p", "parser"),
    ("x>2", "2<x", "parser"),
    ("10!", "3628800", "parser"),
]


@pytest.mark.parametrize(("gold", "answer", "reason"), CONVENTIONS)
def test_conventions(gold, answer, reason):
    assert verify(gold, answer) == (True, reason)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("3", "3.0004"),  # 1.3e-4 of 3
        ("0.33", "1/3"),
        ("B", "C"),
        ("(1,2)", "(2,1)"),
        ("(1,2)", "(1,2,3)"),
        (r"\begin{pmatrix}1&2\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        ("x^2", "x^3"),
        (r"\sqrt{x^2}", "x"),
        (r"\infty", r"-\infty"),
        (r"\frac{", r"\frac{1"),
    ],
)
def test_what_is_not_equal(gold, answer):
    assert not verify(gold, answer).correct


STRICTER = [
    ("-(x+1)", "-x+1", "parser"),
    (r"\frac{1}{23}", r"\frac{12}{3}", "numbers"),
    ("(x+1)(x+2)", "(x+1)(x+3)", "parser"),
    (r"\frac{a}{b}", r"\frac{c}{b}", "parser"),
    ("24", "2x=4", "parser"),
    ("2", "x>=2", "parser"),
    ("6", "5=6", "parser"),
    ("12", "1,2", "parser"),
    ("12", "1 and 2", "parser"),
    (r"\frac{11}{2}", "1 1/2", "numbers"),
    (r"\sqrt{67},-\sqrt{85}", r"\sqrt{67}", "parser"),
    ("x>2", "x<2", "parser"),
    ("x>2", r"x\ge2", "parser"),
    ("east", "seat", "words"),
    ("10_{3}", "10_{2}", "bases"),
    ("", "", "empty"),
]


@pytest.mark.parametrize(("gold", "answer", "reason"), STRICTER)
def test_where_ours_is_stricter(gold, answer, reason):
    assert verify(gold, answer) == (False, reason)


MORE = [
    (r"2\frac{1}{2}", "2.5"),
    ("3/2", "1 1/2"),
    (r"\sqrt{2}", "sqrt(2)"),
    (r"\sqrt{x}", "x^(1/2)"),
    ("8", "2**3"),
    (r"\frac{\pi}{2}", "1.5708"),
    (r"2\pi r", r"2r\pi"),
    (r"2\sin x\cos x", r"\sin(2x)"),
    (r"16 m^{2}-8 m n", "16m^2 - 8mn"),
    ("3x-2y=6", "2y=3x-6"),
    ("1, 2", r"x=1 \text{ or } x=2"),
    ("5", r"\boxed{5.0}"),
    ("3x-2y=6", "6x-4y=12"),
    ("f(x)=2x", "2x"),
]


@pytest.mark.parametrize(("gold", "answer"), MORE)
def test_where_ours_reads_more(gold, answer):
    assert verify(gold, answer).correct


@pytest.mark.parametrize(
    ("gold", "answer", "reason"),
    [
        ("1", "9^{9^9}", "answer refused: exponent"),
        ("x" * 600, "1", "words"),
        ("1+" * 300 + "1", "1", "gold refused: length"),
        ("1", "1 2", "parser"),
        ("x", "x'", "words"),
        ("no", "on", "words"),
        ("x", "nosolution", "words"),
        (r"\{0,1\}", r"\{0,1,\ldots\}", "parser"),
        ("(1,200)", "1200", "parser"),  # an interval, not a number
    ],
)
def test_what_is_compared_as_a_string_only(gold, answer, reason):
    assert verify(gold, answer) == (False, reason)


# Robustness


@given(soup)
def test_extraction_takes_any_text_and_is_done_after_one_go(text):
    answer = extract_answer(text)
    assert answer is None or (answer and answer == answer.strip())


@pytest.mark.parametrize(
    "piece", ["1", "{", "-", " ", "\n", ",", "a ", r"\boxed{", "he answer is ", "答案是", r"\text{"]
)
@pytest.mark.parametrize("before", ["", r"\boxed{"])
def test_time_is_linear_in_the_text(before, piece):
    text = before + piece * (MILLION // len(piece))
    start = time.process_time()
    answer = extract_answer(text)
    assert time.process_time() - start < 20
    verify("1", answer or "")
    assert time.process_time() - start < 20
