"""The commands and recipes of the pages that are not run: the parsers know their options."""

import re
import shlex
import subprocess
import tomllib
from importlib.util import find_spec

import pytest
import yaml

from barl_trl.commands import cli
from barl_trl.commands.recipes import RecipeParser, file_of

from ..paths import ROOT
from .blocks import BLOCKS

RECORD = """
exec 3>&1
command_not_found_handle() { printf "%q " "$@" >&3; echo >&3; }
PATH=/nowhere
"""
"""No command is found: the shell expands loops, variables and quotes, and writes each down."""
OTHERS = {"accelerate", "docker", "inspect", "make", "pip", "python", "unzip", "vllm"}


def command_lines(text, folder):
    """The words of each command of a shell block."""
    shell = ["/bin/bash", "-euc", RECORD + text]
    done = subprocess.run(shell, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return [shlex.split(line) for line in done.stdout.splitlines()]


class Parsed(BaseException):
    """All options of a command are read: nothing is run."""


def stopping_behind(parse):
    def stop(parser, argv):
        parse(parser, argv)
        raise Parsed

    return stop


@pytest.fixture(autouse=True)
def _commands_end_behind_their_parsers(monkeypatch):
    for kind, name in (cli.OneLineParser, "parse_args"), (RecipeParser, "parse_args_and_config"):
        monkeypatch.setattr(kind, name, stopping_behind(getattr(kind, name)))
    monkeypatch.chdir(ROOT)


def parse_barl(command, *options):
    """Read the options of a `barl` command, and check their values."""
    words = iter(options)
    launch = {"--accelerate_config": lambda name: file_of("accelerate_config", name)}
    launch |= {"--num_processes": int}
    others = []
    for word in words:
        if command == "train" and word in launch:
            assert launch[word](next(words))
        else:
            others.append(word)
    if command == "train":  # the devices of this machine do not matter
        others += ["--use_cpu", "true", "--bf16", "false"]
    with pytest.raises(Parsed):
        cli.main([command, *others])


def check_command(name, *words):
    """Check what can be checked of a command without running it."""
    if "barl_trl" in words:  # whatever launches it
        parse_barl(*words[words.index("barl_trl") + 1 :])
    if (name, *words[:1]) == ("docker", "run"):  # the image's entry point is `barl`
        parse_barl(*words[words.index("barl-trl") + 1 :])
    if name == "barl":
        parse_barl(*words)
    elif name == "python" and words[0] == "-m":
        assert find_spec(words[1])
    elif name == "make":
        subprocess.run(["make", "--dry-run", *words], cwd=ROOT, check=True)
    elif name == "pip":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        extras = [extra for word in words for extra in re.findall(r"[\[,]([\w-]+)(?=[\],])", word)]
        assert set(extras) <= set(project["optional-dependencies"])
    else:
        assert name in OTHERS
    for word in words:
        if re.match("(accelerate_configs|benchmarks|examples|scripts|src)/", word):
            assert (ROOT / word).exists()


NOT_RUN = [block for block in BLOCKS if {"not run", "slow"} & block.comments.keys()]


def each_in(language):
    blocks = [block for block in NOT_RUN if block.language == language]
    return pytest.mark.parametrize("block", blocks, ids=str)


@each_in("bash")
def test_commands_have_options_that_exist(block, tmp_path):
    lines = command_lines(block.text, tmp_path)
    assert lines
    for words in lines:
        check_command(*words)


@each_in("yaml")
def test_recipes_have_options_that_exist(block, tmp_path):
    """Model and data are added to a part of one."""
    given = {"model_name_or_path": "model", "dataset_name": "data.jsonl", "output_dir": "out"}
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(given | yaml.safe_load(block.text)))
    parse_barl("train", "--config", str(recipe))
