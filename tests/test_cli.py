"""The `barl` command: its commands, what it imports before it must, and how it ends."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version

import pytest

import barl_trl
from barl_trl.commands import cli

SCRIPT = """
import contextlib, io, json, sys
from barl_trl.commands.cli import main
said = []
for command in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        main(command.split())
    loaded = [name for name in ("torch", "transformers", "datasets") if name in sys.modules]
    said.append((output.getvalue(), loaded))
print(json.dumps(said))
"""


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def run(*arguments, environment=(), **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    command = [sys.executable, "-m", "barl_trl", *arguments]
    return subprocess.run(command, env=os.environ | dict(environment), **options)


def test_help_and_recipes_need_no_heavy_library():
    shown = {"--help": "usage: barl COMMAND", "recipes": "qwen3-4b-lora", "recipes zero2": "zero_s"}
    program, options = [sys.executable, "-c", SCRIPT], {"capture_output": True, "text": True}
    done = subprocess.run(program, input=json.dumps([*shown]), check=True, **options)
    for text, (said, loaded) in zip(shown.values(), json.loads(done.stdout), strict=True):
        assert (loaded, text in said) == ([], True)


def test_every_command_has_help(capsys):
    for command in cli.COMMANDS:
        with suppress(SystemExit):
            cli.main([command, "--help"])
        assert f"usage: barl {command}" in capsys.readouterr().out


def test_the_version_is_told_with_those_of_the_libraries():
    (line,) = run("--version").stdout.splitlines()
    assert line.startswith(f"barl-trl {barl_trl.__version__}, trl {version('trl')}, transformers ")


@pytest.mark.parametrize(("argument", "environment"), [("größe", ASCII), (b"gr\xf6\xdf", {})])
def test_an_argument_that_is_no_text_is_refused_at_once(argument, environment):
    """pyarrow and safetensors refused its surrogates at the end of the work."""
    done = run("train", "--output_dir", argument, environment=environment)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_a_console_that_is_not_utf8_ends_no_command(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"problem": "1 ± 1?", "answer": "é ± 値"}\n' * 2)
    environment = ASCII | {"PYTHONIOENCODING": "ascii"}
    done = run("data", "check", "rows.jsonl", environment=environment, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert "'? ? ?'" in done.stdout


def test_a_closed_console_ends_no_command():
    command = f"{sys.executable} -m barl_trl recipes >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_credit_in_the_working_directory_is_found(tmp_path, monkeypatch, capsys):
    """Also by the console script, whose path does not have that directory."""
    (tmp_path / "own_credits.py").write_text("def own(rollouts):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in sys.path if path])
    for credit, name in {"own_credits.own": "model_name_or_path", "no_credits.own": "cred"}.items():
        with pytest.raises(SystemExit):
            cli.main(["train", "--dataset_name", "d.jsonl", "--credit", credit])
        assert name in capsys.readouterr().err


@pytest.mark.parametrize("command", ["recipes", "--help"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_command_whose_output_nobody_reads_ends_without_a_traceback(command, unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    done = run(command, environment={"PYTHONUNBUFFERED": unbuffered}, stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")
