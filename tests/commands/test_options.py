"""Options and recipes: a short help, and mistakes that are found early."""

from dataclasses import dataclass
from typing import Literal

import pytest

from barl_trl.commands.options import parse_options
from barl_trl.trainer.barl_fields import option


@dataclass
class First:
    size: int = option(3, "How many. More takes longer.")
    kind: Literal["red", "blue"] = option("red", "Which one. A long story follows.")
    name: str | None = option(None, "What it is called.")

    def __post_init__(self):
        if self.size < 1:
            raise ValueError(f"size must be at least 1, got {self.size}.")


@dataclass
class Second:
    extra: int = option(0, "Of the heavy library.")


def parse(*argv):
    """Fails where the heavy library's options are asked for too early."""
    return parse_options("barl test", argv, [First], lambda: [First, Second])


def refuse():
    raise AssertionError("the heavy library was imported")


def test_options_win_over_the_recipe(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("size: 5\nkind: blue\nextra: 7\n")
    assert parse("--config", str(recipe), "--size", "6") == (First(6, "blue"), Second(7))


def test_a_recipe_wins_over_the_defaults_of_the_machine(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("size: 5\n")
    options = ("barl test", ["--config", str(recipe)], [First], lambda: [First, Second])
    assert parse_options(*options, lambda: {"size": 4, "extra": 1}) == (First(5), Second(1))


def test_help_is_a_line_for_each_option_and_needs_no_heavy_library(capsys):
    with pytest.raises(SystemExit) as stop:
        parse_options("barl test", ["--help"], [First], refuse)
    assert not stop.value.code
    listed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  --")]
    assert [" ".join(line.split()) for line in listed[:3]] == [
        "--size How many [3]",
        "--kind Which one: red | blue [red]",
        "--name What it is called",
    ]


def test_a_broken_rule_needs_no_heavy_library():
    with pytest.raises(ValueError, match=r"size must be at least 1, got 0\."):
        parse_options("barl test", ["--size", "0"], [First], refuse)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--kind", "green"], "argument --kind: invalid choice: 'green'"),
        (["--size", "many"], "argument --size: invalid int value: 'many'"),
    ],
)
def test_nor_does_a_value_of_another_type(argv, message, capsys):
    with pytest.raises(SystemExit) as stop:
        parse_options("barl test", argv, [First], refuse)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_an_option_that_nobody_knows_is_refused():
    with pytest.raises((SystemExit, ValueError)):
        parse("--sise", "3")


def test_a_name_cut_short_is_not_taken_for_another():
    """`--ext` is no option of the first ones, and must not be read as one of theirs."""
    assert parse("--extra", "2") == (First(), Second(2))


def test_all_help_lists_the_heavy_librarys_too(capsys):
    with pytest.raises(SystemExit):
        parse("--help-all")
    shown = capsys.readouterr().out
    assert "--size" in shown and "--extra" in shown
