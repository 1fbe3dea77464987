"""What all graders need to know of a text."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.graders.strings import is_balanced, plain_text

from .hostile_texts import soup

# What may be put into a box


@given(soup, soup)
@settings(deadline=None)
def test_balanced_texts_stay_balanced_beside_and_inside_each_other(one, other):
    if is_balanced(one):
        assert is_balanced("{" + one + "}" + other) == is_balanced(other)
        assert is_balanced(one + other) == is_balanced(other)
        assert not is_balanced(one + "}")
        assert not is_balanced("{" + one)


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
