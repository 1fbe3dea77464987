"""Words beside a formula: units, words that change a value, and those that only name things."""

from itertools import combinations

import pytest

from barl_trl.graders import verify
from barl_trl.graders.normal_form import normal_form
from barl_trl.graders.nouns import CHANGING, UNITS, apart, words_against


def against(gold, answer):
    return words_against(apart(normal_form(gold))[1], apart(normal_form(answer))[1])


@pytest.mark.parametrize(
    ("answer", "core"),
    [
        (r"10\text{ cm}^2", "10"),
        ("10 cm^2", "10"),
        ("10 square units", "10"),
        ("100 dollars", "100"),
        ("12 people", "12"),
        ("60 students per day", "60"),
        ("€50", "50"),
        (r"90^\circ", "90"),
        (r"12\pi cm^3", r"12\pi"),
        (r"5\text{ km/h}", "5"),
        ("101_2", "101"),
        (r"\text{It is }125\text{ miles}", "125"),
        (r"6:00\text{ AM}", "6:00"),
        ("2ab", "2ab"),
        ("5m", "5m"),
        ("2 xy", "2 xy"),
        ("a_1", "a_1"),
        (r"1 \text{ or } 2", r"1\text{or}2"),
        ("20 cups of feed", "20"),
        (r"\frac34 cup", r"\frac34"),
        ("18eggs", "18eggs"),
        ("2x eggs", "2x eggs"),
        ("3 cats and 4 dogs", "3 cats and 4 dogs"),
        (r"\text{red}, 5", r"\text{red}, 5"),  # a value of a list
        (r"3\text{ red}, 5\text{ blue}", "3 , 5"),
    ],
)
def test_words_are_taken_off_and_variables_are_not(answer, core):
    assert apart(normal_form(answer))[0] == core


def test_a_unit_is_the_same_by_each_of_its_names_and_their_plurals():
    for name, unit in UNITS.items():
        for written in (name, f"{name}s") if len(name) > 1 else ():
            assert against(rf"10\text{{ {unit}}}", rf"10\text{{ {written}}}") is None


def test_two_units_are_different():
    for one, other in combinations(sorted(set(UNITS.values()) - {"base"}), 2):
        assert against(rf"10\text{{ {one}}}", rf"10\text{{ {other}}}") == "units"


def test_a_word_beside_a_number_may_change_it():
    for word in CHANGING:
        for answer in (rf"5\text{{ {word}}}", rf"\text{{{word} }}5"):
            assert against("5", answer) == "words", answer
            assert against(answer, answer) is None
    assert against("5", r"5\text{ apples}") is None
    assert against("5", r"\text{The answer is }5") is None


@pytest.mark.parametrize(
    "behind",
    [
        *("million eggs", "dozen eggs", "hundred", "percent of the eggs", "fifths", "milliards"),
        *("squared", "or more", "and some", "less", "below", "times", "score", "binary", "Jan"),
        *("x", "abc", "xyz", "alpha", "phi", "sin", "sec x", "log two", "mod seven", "over nine"),
    ],
)
def test_what_may_change_a_number_is_no_noun_behind_it(behind):
    assert verify("18", "18 eggs")
    assert not verify("18", f"18 {behind}")
    assert not verify(f"18 {behind}", "18 eggs")


@pytest.mark.parametrize(
    ("gold", "answer", "reason"),
    [
        (r"10\text{ kg}", r"10\text{ cm}", "units"),
        (r"10\text{ cm}^2", r"10\text{ cm}^3", "units"),
        (r"10\text{ cm}^2", r"10\text{ square centimeters}", None),
        (r"10\text{ cm}^2", "10", None),
        ("10", r"10\text{ cm}", None),
        (r"48\text{ mph}", r"48\text{ miles per hour}", None),
        ("£5", "€5", "units"),
        ("10_2", "10_3", "units"),
        ("10_2", "10", None),
        (r"5:30\text{ pm}", r"5:30\text{ P.M.}", None),
        (r"5:30\text{ pm}", r"5:30\text{ am}", "units"),
        (r"30^\circ", r"30\text{ radians}", "units"),
        (r"5\text{ cm}", "5 meters of wire", "units"),
        (r"5\text{ cm}", "5 apples", "units"),
        (r"5\text{ cm}", "5 centimeters of wire", None),
        (r"5\text{ sec}", "5 seconds", None),
        (r"5\text{ sec}", r"5\text{ min}", "units"),
    ],
)
def test_units_may_be_left_out_and_not_exchanged(gold, answer, reason):
    assert against(gold, answer) == reason
