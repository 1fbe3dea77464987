"""The commands of a shell block, as a shell reads them, and what the parsers say of them."""

import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable
from contextlib import suppress

import pytest

from barl_trl import cli
from barl_trl.commands import demo, plan
from barl_trl.commands.evaluate_arguments import EvaluateArguments
from barl_trl.commands.options import parse_options
from barl_trl.commands.parsers import OneLineParser
from barl_trl.commands.recipe_parser import RecipeParser
from barl_trl.commands.train_arguments import check_recipe
from barl_trl.evaluation.benchmarks import parse_benchmarks
from barl_trl.graders import get_grader

from ..paths import ROOT

RECORD = 'command_not_found_handle() { printf "%q " "$@" >&3; echo >&3; }\nPATH=/nowhere\n'
"""No command is found: the shell expands loops, variables and quotes, and writes each down."""


def command_lines(text, folder):
    """The words of each command of a shell block."""
    script = f"exec 3>commands.txt\n{RECORD}{text}"
    subprocess.run(["/bin/bash", "-c", script], cwd=folder, timeout=20, check=False)
    return [shlex.split(line) for line in (folder / "commands.txt").read_text().splitlines()]


class Parsed(BaseException):
    """All options of a command are read: nothing is run."""


def parse_barl(words):
    """Read the options of a `barl` command, and check their values.

    Raises:
        SystemExit: One is wrong.
        ValueError: One is wrong.
    """
    command, *options = words
    if command in ("train", "plan"):
        # the devices of this machine do not matter to a plan, which takes the same options
        check_recipe(*parse_options("barl plan", options, (), plan._all_arguments))
    elif command == "demo":
        parse_options("barl demo", options, (), demo._all_arguments)
    elif command == "evaluate":
        arguments = (EvaluateArguments,)
        parser = RecipeParser(arguments, prog="barl evaluate")
        (args,) = parser.parse_args_and_config(options)
        with suppress(FileNotFoundError):  # a command before it makes the file
            parse_benchmarks(args.benchmarks)
        assert get_grader(args.grader, args.extraction)
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(OneLineParser, "parse_args", _stop_behind(OneLineParser.parse_args))
            with pytest.raises(Parsed):
                cli.main(words)


def _stop_behind(parse: Callable) -> Callable:
    def parse_args(parser, *args):
        raise Parsed(parse(parser, *args))

    return parse_args


def check_make(words):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(words) <= set(targets)


def check_pip(words):
    """Every extra that is named exists."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {
        name
        for word in words
        for found in re.findall(r"\[(.*)\]", word)
        for name in found.split(",")
    }
    assert extras <= set(project["optional-dependencies"])


def check_python(words):
    """The script exists; `-m` of ours is a `barl` command."""
    if words[0].endswith(".py"):
        assert (ROOT / words[0]).is_file()
    check_launched(words)


def check_launched(words):
    """Whatever starts `-m barl_trl.cli` has the options of `barl` behind it."""
    if "barl_trl.cli" in words:
        parse_barl(words[words.index("barl_trl.cli") + 1 :])
    for name in words[: words.index("-m")] if "-m" in words else ():
        assert not name.endswith(".yaml") or (ROOT / name).is_file()


CHECKS = {
    "barl": parse_barl,
    "make": check_make,
    "pip": check_pip,
    "python": check_python,
    "accelerate": check_launched,
    "torchrun": check_launched,
}
"""What is checked of a command by its name."""
OTHERS = {"vllm", "inspect", "unzip", "sbatch", "cp", "cat", "git", "cd", "docker", "sed", "mkdir"}
"""Commands that are others': nothing is checked."""


def check_command(words):
    """Check what can be checked of a command without running it."""
    name, *rest = words
    assert name in CHECKS or name in OTHERS, f"{name}: no check is known"
    if name in CHECKS:
        CHECKS[name](rest)
