"""What is not handed to a parser, for it may cost seconds or gigabytes there."""

import pytest
from hypothesis import given, settings

from barl_trl.graders.normal_form import has_unseen_characters, is_balanced, why_not_compared

from .hostile_texts import soup


@given(soup, soup)
@settings(deadline=None)
def test_balanced_texts_stay_balanced_beside_and_inside_each_other(one, other):
    if is_balanced(one):
        assert is_balanced("{" + one + "}" + other) == is_balanced(other)
        assert is_balanced(one + other) == is_balanced(other)
        assert not is_balanced(one + "}")
        assert not is_balanced("{" + one)


@pytest.mark.parametrize("character", ["\x00", "\n", "\u200b", "\u202e", "\ud800", "\u2028"])
def test_a_character_that_is_not_seen_is_found(character):
    assert has_unseen_characters(f"4{character}2")
    assert not has_unseen_characters("4 2é或𝟒")


@pytest.mark.parametrize(
    "answer",
    [
        *(r"e^{-x^2}", r"2^{100}", r"10!", r"\binom{10}{3}", r"(x+1)^2(x-1)^3", "(n+1)!"),
        *(r"\{1,2,3\}", "(x^2)^3", "{x^{2}}^{14}", "2^{3^2}", "x^{10000}", r"\lambda=3", "1000!"),
    ],
)
def test_ordinary_answers_are_compared(answer):
    assert why_not_compared(answer) is None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("1 " * 257, "length"),
        ("{1", "no formula"),
        ("1\\", "no formula"),
        ("1\u200b2", "no formula"),
        ("(" * 13 + ")" * 13, "nesting"),
        ("9^{99999}", "exponent"),
        ("9^{9^{9}}", "exponent"),
        ("(9^{999})^{9999}", "exponent"),
        ("x^{99^2}", "exponent"),
        ("9^9^9^9", "exponent"),
        ("2^{3^{3^3}}", "exponent"),
        ("9^{(9^9)}", "exponent"),
        ("2^{(3^{(3^3)})}", "exponent"),
        ("(9^{9999999})^{0}", "exponent"),
        ("10001!", "costly operation"),
        (r"\binom{10001}{2}", "costly operation"),
        ("(5!)!", "costly operation"),
        (r"\sum_{k=1}^n k", "costly operation"),
    ],
)
def test_what_may_cost_a_parser_seconds_is_not_compared(answer, reason):
    assert why_not_compared(answer) == reason


def test_a_sum_is_compared_where_the_true_answer_has_one():
    assert why_not_compared(r"\sum_{k=1}^n k", r"\int_0^1 x dx") is None
