"""Options and recipes: a short help, mistakes that are found early, and by the recipe's line."""

from dataclasses import dataclass
from typing import Literal

import pytest

from barl_trl import cli
from barl_trl.commands.shell.options import parse_early, parse_options
from barl_trl.trainer.config import option


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
    parse_early("barl test", argv, [First])
    return parse_options("barl test", argv, [First, Second])


def test_options_win_over_the_recipe(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("size: 5\nkind: blue\nextra: 7\n")
    assert parse("--config", str(recipe), "--size", "6") == (First(6, "blue"), Second(7))


def test_a_recipe_wins_over_the_defaults_of_the_machine(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("size: 5\n")
    options = ("barl test", ["--config", str(recipe)], [First, Second])
    assert parse_options(*options, size=4, extra=1) == (First(5), Second(1))


def test_help_is_a_line_for_each_option_and_needs_no_heavy_library(capsys):
    with pytest.raises(SystemExit) as stop:
        parse_early("barl test", ["--help"], [First])
    assert not stop.value.code
    listed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  --")]
    assert [" ".join(line.split()) for line in listed[:3]] == [
        "--size How many (default: 3)",
        "--kind Which one: red | blue (default: red)",
        "--name What it is called",
    ]


def test_a_name_cut_short_is_not_taken_for_another():
    """`--ext` is no option of the first ones, and must not be read as one of theirs."""
    assert parse("--extra", "2") == (First(), Second(2))


NEEDED = {
    "train": "dataset_name: x",
    "plan": "dataset_name: x",
    "demo": "max_steps: 1",
    "evaluate": "model: x\nbenchmarks: gsm8k",
}
"""Commands that take recipes, and what one must have."""


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """Runs a command on a recipe; returns the line that it ends with."""

    def run(command, text=None):
        monkeypatch.chdir(tmp_path)
        if text is not None:
            (tmp_path / "r.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
        with pytest.raises(SystemExit) as stop:
            cli.main([command, "--config", "r.yaml"])
        assert stop.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line.removeprefix(f"barl {command}: ")

    return run


@pytest.mark.parametrize("command", NEEDED)
def test_mistakes_in_recipes(command, said):
    first = NEEDED[command]
    number, name = first.count("\n") + 2, "max_tokens" if command == "evaluate" else "step_size"
    place = f"r.yaml, line {number}: "
    missing = (
        "--config must be a YAML file or a shipped name, got r.yaml: `barl recipes` lists them."
    )
    assert said(command) == missing
    wrong = name.replace("_", "")
    near = f"{place}unknown option {wrong}: did you mean {name}?"
    assert said(command, f"{first}\n{wrong}: 3\n") == near
    assert said(command, f"{first}\nqqqzzz: hf_canary\n").startswith(
        f"{place}unknown option qqqzzz: "
    )
    kind = f"{place}argument --{name}: invalid int value:"
    assert said(command, f"{first}\n{name}: many\n") == f"{kind} 'many'."
    assert said(command, f"{first}\n{name}: [3]\n") == f"{kind} '[3]'."
    assert said(command, f"{first}\n{name}: [1\n").startswith("r.yaml: this is no YAML: ")
    again = f"{first}\n{name}: 3\n{name}: 4\n"
    assert said(command, again) == f"r.yaml, line {number + 1}: {name} is in line {number} already."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "r.yaml must hold options as `name: value`, got NoneType."),
        ("- a", "r.yaml must hold options as `name: value`, got list."),
        ("dataset_name:\n", "r.yaml, line 1: dataset_name must be set, got None."),
        ("dataset_name: x\non: 3\n", "r.yaml, line 1: unknown option True: "),
        (
            "dataset_name: x\na: b: c\n",
            "r.yaml: this is no YAML: mapping values are not allow",
        ),
        (
            "num_processes: 2\n",
            "r.yaml, line 1: num_processes is read before the recipe: give --nu",
        ),
        ("dataset_name: x\nbf16: maybe\n", "r.yaml, line 2: argument --bf16: Truthy value exp"),
        ("dataset_name: x\nmax_steps: 1.5\n", "r.yaml, line 2: argument --max_steps: invalid int"),
        ("a: \x00", "r.yaml: this is no YAML: "),
        ("[" * 20_000, "r.yaml: this is no YAML: "),
        (b"\xff\xfe\xfa", "r.yaml must be UTF-8 text, got "),
    ],
)
def test_recipes_that_are_none(said, text, message):
    assert said("train", text).startswith(message)


def test_the_file_may_follow_an_equals_sign(tmp_path, capsys):
    with pytest.raises(SystemExit):
        cli.main(["train", f"--config={tmp_path}/r.yaml"])
    assert (
        f"--config must be a YAML file or a shipped name, got {tmp_path}/r.yaml"
        in capsys.readouterr().err
    )


def test_a_file_must_follow(capsys):
    with pytest.raises(SystemExit):
        cli.main(["evaluate", "--config", "--model", "x"])
    assert "--config must be followed by a recipe, got nothing." in capsys.readouterr().err
