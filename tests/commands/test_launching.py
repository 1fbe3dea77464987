"""`barl train` starts itself under `accelerate launch`, where it is asked to."""

import sys

import pytest
from accelerate.commands.launch import launch_command_parser

from barl_trl import cli
from barl_trl.commands.recipes import file_of
from barl_trl.commands.train.launching import launch_command


def test_without_its_options_nothing_is_launched():
    assert launch_command("barl train", ["--config", "demo", "--learning_rate", "-1"]) is None


def test_its_options_go_to_accelerate_and_the_others_to_the_command():
    given = ["--config", "demo", "--accelerate_config=zero2", "--num_processes", "4", "--beta", "0"]
    command = launch_command("barl train", given)
    assert command and command[:4] == [sys.executable, "-P", "-m", "accelerate.commands.launch"]
    parsed = launch_command_parser().parse_args(command[4:])
    assert parsed.config_file == str(file_of("accelerate_config", "zero2"))
    assert parsed.num_processes == 4
    assert (parsed.no_python, parsed.training_script) == (True, sys.executable)
    given = ["train", "--config", "demo", "--beta", "0"]
    assert parsed.training_script_args == ["-P", "-m", "barl_trl.cli", *given]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--accelerate_config", "zero22"], "got zero22: did you mean zero2?"),
        (["--num_processes", "0"], "must be a whole number of at least 1, got '0'."),
        (["--accelerate_config"], "expected one argument."),
    ],
)
def test_wrong_values_are_said_before_anything_is_launched(given, message, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", *given])
    assert stop.value.code == 2
    assert capsys.readouterr().err.endswith(f"{message}\n")


def test_under_a_launcher_nothing_is_launched_again(monkeypatch, capsys):
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(SystemExit):
        cli.main(["train", "--num_processes", "2"])
    assert "--num_processes must be given where nothing is launched yet" in capsys.readouterr().err
