"""Extraction by the default grader: the last box, and statements where they are asked for."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.graders import extract_answer
from barl_trl.graders.extraction import EXTRACTIONS
from barl_trl.hypotheses import truth_answer, why_inadmissible

from .hostile_texts import MILLION, soup

LONG = 100_000

# hypothesis draws "</think>" from our code, too, and no box reaches over it
plain = st.text(st.characters(exclude_characters="\\{}<", exclude_categories=["Cs"]))
escapes = st.sampled_from([r"\{", r"\}", r"\\", r"\frac", r"\ "])
balanced = st.recursive(
    st.lists(plain | escapes, max_size=3).map("".join),
    lambda inner: st.tuples(plain, inner, plain).map(lambda t: f"{t[0]}{{{t[1]}}}{t[2]}"),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"So \boxed{42}.", "42"),
        (r"\fbox{42}", "42"),
        (r"\boxed {42}", "42"),
        (r"\boxed{ 42 }", "42"),
        (r"\boxed{}", ""),
        (r"\boxed{1} and \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{1\right\}}", r"\left\{1\right\}"),
        (r"\boxed{5}. I put it in \boxed.", "5"),
    ],
)
def test_the_answer_is_the_raw_content_of_the_last_box(text, answer):
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The answer is 42.",
        "42",
        r"\boxed",
        r"\boxed 42",
        r"\boxed42",
        r"boxed{42}",
        r"\\boxed{4}",
    ],
)
def test_without_a_box_there_is_no_answer_and_never_the_last_number(text):
    assert extract_answer(text) is None


@pytest.mark.parametrize("text", [r"\boxed{42", r"\boxed{1} \boxed{42", r"\boxed{1} \boxed{2\}"])
def test_an_unclosed_last_box_is_no_answer_and_never_an_earlier_one(text):
    assert extract_answer(text) is None


def test_of_nested_boxes_the_outermost_counts():
    assert extract_answer(r"\boxed{a \fbox{b} c}") == r"a \fbox{b} c"


def test_an_unclosed_box_does_not_swallow_a_later_closed_one():
    assert extract_answer(r"\boxed{x = 3. Hence \boxed{3}.") == "3"


@given(balanced, plain, plain, st.sampled_from([r"\boxed{", r"\fbox{", r"\boxed {"]))
@settings(deadline=None)
def test_any_balanced_content_comes_back(content, before, after, box):
    assert extract_answer(f"{before}{box}{content}}}{after}") == content.strip()


@given(st.text())
@settings(deadline=None)
def test_any_text_without_a_box_has_no_answer(text):
    assert extract_answer(text.replace("box", "")) is None


@given(st.lists(st.sampled_from([r"\boxed{", r"\fbox{", "{", "}", r"\{", "\\", "1", "\n"])))
@settings(deadline=None)
def test_an_extracted_answer_is_balanced_whatever_surrounds_it(pieces):
    answer = extract_answer("".join(pieces))
    assert answer is None or why_inadmissible(answer + "1", max_chars=MILLION) != "unbalanced"


@settings(max_examples=200)
@given(text=soup)
def test_what_is_extracted_can_be_boxed_again(text):
    answer = extract_answer(text)
    assert answer is None or extract_answer(rf"\boxed{{{answer}}}") == answer


# Statements

STATED = {
    "The answer is 42.": "42",
    "Hence the final answer is $\\frac{1}{2}$. I hope it is correct.": r"\frac{1}{2}",
    "The answer to the last question is 3.5. It was easy.": "3.5",
    "The answer is: **42**": "42",
    "**Answer:** 42\nDone": "42",
    "**Final Answer**\n\n$42$": "42",
    "Final answer: answer: 42": "42",
    "The answer is\n\\[\n42.\n\\]\nIt is 7.": "42",
    r"The answer is \(x = 3. 5\), which is odd.": "x = 3. 5",
    r"The answer is \(1\) and \(2\).": r"\(1\) and \(2\)",
    r"The answer is \text{approx. 5}. So be it.": r"\text{approx. 5}",
    "The answer is $42. He has $3 left.": "$42",
    "The answer is (0, 1]. It is half open.": "(0, 1]",
    "(So the answer is 42.)": "42",
    "The answer is 42 because geometry proves it": "42",
    "The answer is 42</s>": "42",
    "The answer is 42. I am sure that the answer is correct.": "42",
    "The answer is 41. No, the answer is 42.": "42",
    "Final Answer: The area of $ABC$ is $42$.": "42",
    "The answer is Evelyn.": "Evelyn",
    "6 * 7 = 42\n#### 42": "42",
    "#### 42\n#### Check\n#### 3. Summary": "42",
    "<answer>\n42\n</answer>": "42",
    "<answer>41</answer> <answer>Evelyn</answer> <answer>": "41",
    "<answer>Evelyn</answer>": "Evelyn",
    "It is **$x = \\frac{1}{2}$**.": r"x = \frac{1}{2}",
    "**1. Find it** It is **42**. **Note:** **Step 2** is easy.": "42",
    r"so $\boxed 42$.": "42",
    r"\fbox\frac{1}{2}, of course": r"\frac{1}{2}, of course",
}


@pytest.mark.parametrize(("text", "answer"), STATED.items())
def test_a_statement_is_read_where_it_is_asked_for(text, answer):
    assert extract_answer(text, "stated") == answer
    assert extract_answer(text) is None


KINDS = [r"\boxed{0}", "the answer is 1.", "#### 2\n", "<answer>3</answer>", "**4**", r"\boxed 5"]


def test_kinds_are_tried_in_their_order_wherever_they_stand():
    for first in range(len(KINDS)):
        for kinds in (KINDS[first:], KINDS[:first:-1] + KINDS[first : first + 1]):
            assert extract_answer("\n".join(kinds), "stated") == str(first)


@pytest.mark.parametrize(
    "text",
    [
        "6 * 7 = 42",
        "It is 42.",
        "42",
        "2**3**4",
        "### 42",
        "<answer>42",
        "**Step 3**",
        "**a)**",
        r"I put 42 in \boxed.",
        "Answer the question",
        "The answer is {5.",
    ],
)
def test_the_last_number_is_read_only_where_that_is_asked_for(text):
    assert extract_answer(text, "stated") is None
    assert extract_answer(f"{text} Or 7?", "last_number") == "7"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("It is 1,200 km.", "1,200"),
        ("from 1 to -3.5.", "-3.5"),
        ("10-3", "3"),
        ("3/4 of it", "3/4"),
        (".5", ".5"),
        ("(1,2)", "2"),
        ("x2", None),
        ("42. The answer is yes", "yes"),
        ("<think>5</think> none", "5"),
        ("<think>5</think> It is 6.", "6"),
    ],
)
def test_the_last_number(text, number):
    assert extract_answer(text, "last_number") == number


@pytest.mark.parametrize(
    ("text", "boxed", "stated"),
    [
        (r"<think>\boxed{1}</think> So \boxed{2}.", "2", "2"),
        (r"<think>\boxed{1}</think> So it is.", "1", "1"),
        (r"<think>\boxed{1}</think> The answer is 2.", "1", "2"),
        (r"\boxed{1}</think> **2**", "1", "2"),
        (r"<think>The answer is 1.</think> So it is.", None, "1"),
        (r"<think>a</think> \boxed{1} <think>b</think> \boxed{2}", "2", "2"),
        (r"<think>\boxed{ so \boxed{1}</think> }", "1", "1"),
        (r"<think>\boxed{1}. The answer is 2. Or \boxed{3}?", "3", "3"),
        (r"<think>\boxed{1}</think> \boxed{2", None, None),
        (r"<think>\boxed{1</think> The answer is 2.", None, "2"),
    ],
)
def test_a_thought_counts_where_nothing_stands_behind_it(text, boxed, stated):
    assert extract_answer(text) == boxed
    assert extract_answer(text, "stated") == stated


@pytest.mark.parametrize("extraction", EXTRACTIONS)
def test_an_unclosed_last_box_is_no_answer_whatever_is_stated(extraction):
    for text in (r"The answer is 42. \boxed{42", r"The answer is \boxed{42", r"\boxed{1} \boxed{2"):
        assert extract_answer(text, extraction) is None


def test_an_empty_box_is_no_statement():
    text = r"I put it in \boxed{}. The answer is 42."
    assert (extract_answer(text), extract_answer(text, "stated")) == ("", "42")


@given(st.text())
@settings(deadline=None)
def test_any_text_can_be_read_in_any_way_and_a_box_goes_first(text):
    for extraction in EXTRACTIONS:
        extract_answer(text, extraction)
        assert extract_answer(rf"{text.replace('{', '')} \boxed{{1}}", extraction) == "1"


@pytest.mark.parametrize(
    "text",
    [
        "{" * MILLION,
        r"\boxed{" * (MILLION // 7),
        r"\boxed{" * (MILLION // 14) + "}" * (MILLION // 14),
        r"\boxed" + " " * MILLION,
        "\\" * MILLION,
        r"\boxed{" + "9" * MILLION + "}",
        "answer" + " " * LONG,
        "answer to " * (LONG // 10),
        "answer:\n" * (LONG // 8),
        "answer is 4. " * (LONG // 13),
        r"answer: \(" * (LONG // 10),
        r"answer: {{}" * (LONG // 11),
        "answer: " + r"\[" * (LONG // 2),
        "answer: " + "{a}" * (LONG // 3) + "{",
        "answer: " + "$$ $" * (LONG // 4),
        "answer: " + ", " * (LONG // 2) + "because",
        "#### " + "a " * (LONG // 2) + "aa",
        "#### " * (LONG // 5),
        "<answer>" * (LONG // 8),
        "<answer></answer>" * (LONG // 17),
        "**4 " * (LONG // 4),
        "**" + r"\a" * (LONG // 2) + " aa**",
        r"\boxed " * (LONG // 7),
        "9,999" * (LONG // 5),
        "-9/" * (LONG // 3),
        "</think>" * (LONG // 8),
    ],
)
def test_extraction_is_linear_in_the_text(text):
    start = time.process_time()
    extract_answer(text, "last_number")  # which reads all the others
    truth_answer(text)
    assert time.process_time() - start < 5, "of CPU time; what is quadratic takes minutes"
