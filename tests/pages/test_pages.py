"""The code of the pages runs, and what is not run has commands and options that exist.

Every block is run, unless a comment in front of it, which readers do not see, says why not:

    <!-- not run: needs two GPUs -->     its commands are parsed all the same
    <!-- slow: a minute of training -->  run with the slow tests
    <!-- before: COMMANDS -->            what a reader has by then, made in a shell
    <!-- status: 1 -->                   the exit status of its last command, if it is not 0

A block with a title (```python title="my_credits.py") is written to that file.
"""

import argparse
import doctest
import json
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from markdown_it import MarkdownIt
from trl import ModelConfig

from barl_trl.commands import train
from barl_trl.commands.cli import main
from barl_trl.commands.evaluate import EvaluateArguments
from barl_trl.commands.recipes import RecipeParser, file_of
from barl_trl.evaluation.benchmarks import parse_benchmarks
from barl_trl.graders import get_grader
from barl_trl.trainer import BARLConfig

from ..paths import ROOT
from ..preloaded import PRELOADED

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += sorted((ROOT / "examples").rglob("README.md"))
COMMENT = re.compile(r"<!-- (not run|slow|before|status):\s*(\S.*?)\s*-->", re.DOTALL)
# `barl` and `python FILE`, in processes that start at once
SHELL = f"""
set -eu
preloaded() {{ {shlex.join(PRELOADED)} "$@"; }}
barl() {{ preloaded barl_trl "$@"; }}
python() {{ case "$1" in *.py) preloaded "$@";; *) {sys.executable} "$@";; esac; }}
"""
# no command is found: the shell expands loops, variables and quotes, and writes each down
RECORD = """
exec 3>&1
command_not_found_handle() { printf "%q " "$@" >&3; echo >&3; }
PATH=/nowhere
"""


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    title: str
    text: str
    comments: dict[str, str]

    def __str__(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page):
    comments = {}
    for token in MarkdownIt().parse(page.read_text()):
        if token.type in ("fence", "code_block"):  # one that is merely indented has no language
            language, _, title = token.info.partition(" title=")
            line = token.map[0] + 1
            yield Block(page, line, language, title.strip('"'), token.content, comments)
        found = COMMENT.findall(token.content) if token.type == "html_block" else ()
        comments = comments | dict(found) if found else {}


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
NOT_RUN = [block for block in BLOCKS if {"not run", "slow"} & block.comments.keys()]
RUNS = {}  # the blocks of a page, and by themselves its slow ones
for block in BLOCKS:
    if "not run" not in block.comments:
        RUNS.setdefault((block.page, "slow" in block.comments), []).append(block)


PARTS = [
    pytest.param(blocks, id=str(page.relative_to(ROOT)), marks=[pytest.mark.slow] * is_slow)
    for (page, is_slow), blocks in RUNS.items()
]


@pytest.mark.parametrize("blocks", PARTS)
def test_the_blocks_of_a_page_run_one_after_the_other(blocks, tmp_path, monkeypatch, capsys):
    """They share names, and a folder that is like a fresh clone as far as they read its files."""
    for name in ("examples", "src"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [Path(block.title).stem for block in BLOCKS if block.title]:
        monkeypatch.setitem(sys.modules, name, None)  # other tests have modules of the same name
        monkeypatch.delitem(sys.modules, name)
    names, shown = {}, None
    for block in blocks:
        print(block, file=sys.stderr)  # a failure shows it
        run_shell(block.comments.get("before", ""))
        if block.title:
            Path(block.title).write_text(block.text)
        if block.language == "text":
            assert block.text == shown
        elif block.language == "bash":
            print(run_shell(block.text, int(block.comments.get("status", 0))), end="")
        else:
            RUN[block.language](block, names)
        shown = capsys.readouterr().out


def run_shell(text, status=0):
    settings = {"timeout": 240, "capture_output": True, "text": True}
    done = subprocess.run(["bash", "-c", SHELL + text], **settings)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def run_python(block, names):  # a traceback has the page's lines
    exec(compile("\n" * block.line + block.text, block.page, "exec"), names)


def run_doctest(block, names):
    of_block = block.text, names, str(block), block.page, block.line
    assert not doctest.DocTestRunner().run(doctest.DocTestParser().get_doctest(*of_block)).failed


RUN = {"pycon": run_doctest, "python": run_python, "json": lambda of, _: json.loads(of.text)}


class ParsedError(Exception):
    """All options of a command are read: nothing is run."""


def parse_barl(command, *words):
    if command == "train":
        words = [*words]
        for option in {"--accelerate_config", "--num_processes"} & {*words}:  # of the launch
            _, value = words[(place := words.index(option)) : place + 2]
            assert value.isdecimal() or file_of("accelerate_config", value)
            del words[place : place + 2]
        parser = RecipeParser(train.ScriptArguments, BARLConfig, ModelConfig, prog="barl train")
        parser.set_defaults(use_cpu=True, bf16=False, dataset_name="data.jsonl")
        train._refuse_contradictions(*parser.parse_args_and_config(words))
    elif command == "evaluate":
        (args,) = RecipeParser(EvaluateArguments, prog="barl evaluate").parse_args_and_config(words)
        get_grader(args.grader, args.extraction)
        with suppress(FileNotFoundError):  # a command before it makes the file
            parse_benchmarks(args.benchmarks)
    else:
        with pytest.raises(ParsedError):
            main([command, *words])


@pytest.mark.parametrize("block", [one for one in NOT_RUN if one.language == "bash"], ids=str)
def test_commands_have_options_that_exist(block, tmp_path, monkeypatch):
    def stop(*args):
        parse(*args)
        raise ParsedError

    parse = argparse.ArgumentParser.parse_args
    shell = ["/bin/bash", "-euc", RECORD + block.text]
    done = subprocess.run(shell, cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True)
    lines = [shlex.split(line) for line in done.stdout.splitlines()]
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    assert lines
    for name, *words in lines:
        launched = {"accelerate": "barl_trl", "docker": "barl-trl"}.get(name)  # or the image's name
        if name == "barl":
            parse_barl(*words)
        elif launched in words and words[0] in ("launch", "run"):
            parse_barl(*words[words.index(launched) + 1 :])
        elif name == "python" and words[0] == "-m" and words[1].startswith("experiments."):
            is_package = (ROOT / words[1].replace(".", "/")).is_dir()
            with pytest.raises(ParsedError):
                import_module(words[1] + ".__main__" * is_package).main(words[2:])
        elif name == "make":
            subprocess.run(["make", "--dry-run", *words], cwd=ROOT, check=True)
        for word in words:
            if re.match("(accelerate_configs|benchmarks|examples|scripts|src)/", word):
                assert (ROOT / word).exists()


@pytest.mark.parametrize("block", [one for one in NOT_RUN if one.language == "yaml"], ids=str)
def test_recipes_have_options_that_exist(block, tmp_path):
    """Model and data are added to a part of one."""
    given = {"model_name_or_path": "model", "dataset_name": "data.jsonl", "output_dir": "out"}
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(given | yaml.safe_load(block.text)))
    parse_barl("train", "--config", str(recipe))
