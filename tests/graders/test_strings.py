"""What is said of an answer by its characters."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.graders.strings import (
    has_unseen_characters,
    is_balanced,
    normal_form,
    plain_text,
    why_not_compared,
    words,
)

from .hostile_texts import soup

# One form for what is surely the same


@pytest.mark.parametrize(
    ("answer", "form"),
    [
        ("$x$", "x"),
        ("x.", "x"),
        (r"\left(1, 2\right)", "(1, 2)"),
        (r"\dfrac{1}{2}", r"\frac{1}{2}"),
        ("10{,}000", "10000"),
        (r"10\,000", "10000"),
        ("10,000", "10,000"),  # perhaps a pair
        ("x + 1", "x+1"),
        ("1 1/2", "1 1/2"),  # one and a half
        (r"50\%", "50%"),
        (r"\$5", "5"),
        ("5个", r"5\text{个}"),
        ("√2", r"\sqrt{2}"),
        (r"x \\ y", r"x\\y"),  # a new row
        (r"\\frac{1}{2}", r"\frac{1}{2}"),  # escaped once too often
    ],
)
def test_differences_without_a_meaning_are_undone(answer, form):
    assert normal_form(answer) == form


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (r"\text{Evelyn}", "evelyn"),
        ("New  York", "new york"),
        (r"\text{ab}", "ab"),
        ("No", "no"),
        ("ab", None),  # a times b
        ("x+y", None),
        ("42", None),
        (r"\text{4 apples}", None),
    ],
)
def test_words_are_told_from_products(answer, content):
    assert words(answer) == content


# What may be put into a box, or before a parser


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
        *(r"\{1,2,3\}", "(x^2)^3", "2^{3^2}", r"x^{10^4}"),
    ],
)
def test_ordinary_answers_are_compared(answer):
    assert why_not_compared(answer) is None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("1 " * 257, "length"),
        ("{1", "unbalanced"),
        ("1\\", "unbalanced"),
        ("1\u200b2", "control characters"),
        ("(" * 13 + ")" * 13, "nesting"),
        ("9^{99999}", "exponent"),
        ("9^{9^{9}}", "exponent"),
        ("((x^{99})^{99})^{99}", "exponent"),
        ("1001!", "factorial or binomial"),
        (r"\binom{1001}{2}", "factorial or binomial"),
        ("1" * 101, "digit run"),
        ("(5!)!", "nested factorial"),
        (r"\sum_{k=1}^n k", "eager operation"),
        ("lambda: 42", "code"),
        ("1," * 65, "commas"),
        ("|" * 9, "bars"),
        ("&" * 201, "matrix cells"),
        ("+" * 257, "operators"),
    ],
)
def test_what_may_cost_a_parser_seconds_is_not_compared(answer, reason):
    assert why_not_compared(answer) == reason


# Cells of a data set


@given(st.integers(-(2**53) + 1, 2**53 - 1), st.decimals(-(10**9), 10**9, places=4))
@settings(deadline=None)
def test_numbers_become_the_text_that_one_would_write(whole, number):
    assert plain_text(whole) == plain_text(float(whole)) == plain_text([whole]) == str(whole)
    assert Decimal(plain_text(number)) == number
    assert "E" not in plain_text(number)


@pytest.mark.parametrize("cell", [None, [1, 2], {"a": 1}, float("nan"), 2.0**53, "\ud800"])
def test_what_is_no_certain_text_or_number_has_none(cell):
    assert plain_text(cell) is None
