"""What the words are for: each is tried on the doubt that knows it."""

from itertools import combinations

from barl_trl.graders.default.doubts import doubt
from barl_trl.graders.default.vocabulary import QUANTITIES, UNDERSTOOD, UNITS


def test_a_unit_is_the_same_by_each_of_its_names_and_their_plurals():
    for name, unit in UNITS.items():
        for written in (name, f"{name}s"):
            assert doubt(rf"10\text{{ {unit}}}", rf"10\text{{ {written}}}") is None


def test_two_units_are_different():
    for one, other in combinations(sorted(set(UNITS.values())), 2):
        assert doubt(rf"10\text{{ {one}}}", rf"10\text{{ {other}}}") == "units"


def test_a_quantity_beside_a_number_changes_it():
    for word in QUANTITIES:
        assert doubt("5", rf"5\text{{ {word}}}") == "words"
        assert doubt(rf"5\text{{ {word}}}", rf"5\text{{ {word}}}") is None
    assert doubt("5", r"5\text{ apples}") is None


def test_a_command_is_doubted_unless_it_is_understood():
    for command in UNDERSTOOD:
        assert doubt("5", rf"\{command} 5") != "commands"
        assert doubt("5", rf"\{command}foo 5") == "commands"
