"""Extraction by the default grader: the last box."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.graders import extract_answer, get_grader
from barl_trl.hypotheses import truth_answer, why_inadmissible
from barl_trl.rewards import AccuracyReward

from .hostile_texts import MILLION, soup

plain = st.text(st.characters(exclude_characters="\\{}", exclude_categories=["Cs"]))
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


@settings(max_examples=200, deadline=None)
@given(text=soup)
def test_what_is_extracted_can_be_boxed_again(text):
    answer = extract_answer(text)
    assert answer is None or extract_answer(rf"\boxed{{{answer}}}") == answer


@pytest.mark.parametrize(
    "text",
    [
        "{" * MILLION,
        r"\boxed{" * (MILLION // 7),
        r"\boxed{" * (MILLION // 14) + "}" * (MILLION // 14),
        r"\boxed" + " " * MILLION,
        "\\" * MILLION,
        r"\boxed{" + "9" * MILLION + "}",
    ],
)
def test_extraction_is_linear_in_the_text(text):
    start = time.process_time()
    extract_answer(text)
    truth_answer(text)
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "completion",
    [
        "5",
        "The answer is 5.",
        r"\boxed 5",
        r"\\boxed{5}",
        r"\boxed{5",
        r"\boxed{5} \boxed{6",
        r"\boxed{5} \boxed{6}",
        r"\boxed{5} or \boxed{6}",
        r"\boxed{5} \fbox{6}",
        r"\boxed{5}\boxed{}",
        r"\boxed{\boxed{5}, \boxed{6}}",
        r"\boxed{\boxed{5}\boxed{6}}",
        r"\boxed{5\}",
        "\\boxed{5\n6}",
    ],
)
def test_a_reward_is_for_one_closed_last_box(completion):
    reward = AccuracyReward(get_grader("math_verify"), "accuracy_reward")
    assert reward([completion, r"\boxed{5}"], ["5", "5"]) == [0.0, 1.0]
