"""Every mistake in the options of every command ends in one line, with exit status 2."""

import pytest

from barl_trl import cli
from barl_trl.commands.shell.parsers import OneLineParser

ANALYSES = {
    "efficiency": ("--max_k", "--sampled x"),
    "reflections": ("--num_samples", "x"),
    "curves": (None, "x"),
    "values": ("--max_problems", "x"),
}
COMMANDS = {
    "train": ("--step_size", "--dataset_name x --model_name_or_path y"),
    "plan": ("--num_processes", "--dataset_name x --model_name_or_path y"),
    "demo": ("--step_size", ""),
    "evaluate": ("--max_tokens", "--model x --benchmarks gsm8k"),
    "data check": (None, "x"),
    "reproduce triplets": ("--seeds", ""),
    "reproduce paper": ("--seeds", ""),
} | {f"analyze {name}": found for name, found in ANALYSES.items()}
"""Commands: an option that takes a whole number, and the options that they must have."""

DIRECTORY = {"data check": "--split", "plan": "--output_dir"}
NUMBERS = [name for name, (number, _) in COMMANDS.items() if number]


def mistake(capsys, command):
    """The line that a command says of a mistake, without the command's name."""
    with pytest.raises(SystemExit) as stop:
        cli.main(command.split())
    shown = capsys.readouterr()
    assert stop.value.code == 2
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    prog, text = line.split(": ", 1)
    assert f"barl {command}".startswith(prog)
    assert "usage:" not in text and text.endswith((".", "?")) and not text.endswith("?.")
    return text


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_is_named_without_its_value(command, capsys):
    said = mistake(capsys, f"{command} {COMMANDS[command][1]} --zzzzqqq=hf_canary")
    assert said.startswith(f"unknown option --zzzzqqq: `barl {command} --help")
    assert "canary" not in said


@pytest.mark.parametrize("command", COMMANDS)
def test_a_misspelt_option_is_named_with_the_nearest_even_before_a_missing_one(command, capsys):
    right = DIRECTORY.get(command, "--output_dir")
    wrong = right[:4] + right[5] + right[4] + right[6:]
    assert (
        mistake(capsys, f"{command} {wrong} x") == f"unknown option {wrong}: did you mean {right}?"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_without_its_value(command, capsys):
    option = DIRECTORY.get(command, "--output_dir")
    said = mistake(capsys, f"{command} {COMMANDS[command][1]} {option}")
    assert said == f"argument {option}: expected one argument."


@pytest.mark.parametrize("command", NUMBERS)
def test_a_value_of_another_type(command, capsys):
    option, needed = COMMANDS[command]
    said = mistake(capsys, f"{command} {needed} {option} many")
    assert said.startswith(f"argument {option}: ") and "'many'" in said


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("train", "the following arguments are required: --dataset_name."),
        ("evaluate --model x", "the following arguments are required: --benchmarks."),
        ("data check", "the following arguments are required: FILE."),
        ("analyze", "the following arguments are required: ANALYSIS."),
        ("train r.yaml", "a recipe must come after --config, got r.yaml: barl train --config r.ya"),
        ("train --max_steps 3 r.yaml", "a recipe must come after --config, got r.yaml: barl train"),
        ("reproduce triplets x", "unexpected argument 'x': `barl reproduce triplets --help` lists"),
        ("data check nowhere.jsonl", "FILE must name an existing file, got nowhere.jsonl"),
        ("analyze reflections /nowhere", "a folder of responses must hold <benchmark>.jsonl"),
        (
            "trian",
            "COMMAND must be one of train, recipes, plan, data, evaluate, analyze, reproduce",
        ),
    ],
)
def test_other_mistakes(command, said, capsys):
    assert mistake(capsys, command).startswith(said)


def test_of_a_launch_the_first_process_says_it(capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(SystemExit) as stop:
        OneLineParser(prog="barl test").parse_args(["--size"])
    assert stop.value.code == 2
    assert capsys.readouterr().err == ""


def test_help_shows_what_must_be_given_and_each_option_once(capsys):
    with pytest.raises(SystemExit):
        cli.main(["evaluate", "--help"])
    shown = capsys.readouterr().out
    assert " --model MODEL --benchmarks BENCHMARKS [--backend " in " ".join(shown.split())
    assert "--num_samples" in shown and "--num-samples" not in shown
    assert "(default: 2048)" in shown and "None" not in shown
