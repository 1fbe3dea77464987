"""Every block of code in the pages is run, or says why not."""

import doctest
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ..paths import ROOT
from ..preloaded import PRELOADED
from .blocks import BLOCKS

LANGUAGES = {"bash", "bibtex", "json", "pycon", "python", "text", "yaml"}
SHELL = f"""
set -eu
preloaded() {{ {shlex.join(PRELOADED)} "$@"; }}
barl() {{ preloaded barl_trl "$@"; }}
python() {{ case "$1" in *.py) preloaded "$@";; *) {sys.executable} "$@";; esac; }}
"""
"""`barl` and `python FILE`, in processes that start at once."""

RUNS = {}
"""What is run together: the blocks of a page, and by themselves its slow ones."""
for block in BLOCKS:
    if "not run" not in block.comments:
        RUNS.setdefault((block.page, "slow" in block.comments), []).append(block)


def test_blocks_have_a_language():
    assert [str(block) for block in BLOCKS if block.language not in LANGUAGES] == []


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder like a fresh clone, as far as blocks read its files; outputs go to itself."""
    for name in ("examples", "src"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [Path(block.title).stem for block in BLOCKS if block.title]:
        monkeypatch.setitem(sys.modules, name, None)  # other tests have modules of the same name
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param(blocks, id=str(page.relative_to(ROOT)), marks=[pytest.mark.slow] * is_slow)
        for (page, is_slow), blocks in RUNS.items()
    ],
)
def test_the_blocks_of_a_page_run_one_after_the_other(blocks, folder, capsys):
    """They share a folder and Python's names; a block of text is what the one before printed."""
    names, shown = {}, None
    for block in blocks:
        print(block, file=sys.stderr)  # a failure shows it
        run_shell(block.comments.get("before", ""))
        if block.title:
            (folder / block.title).write_text(block.text)
        if block.language == "text":
            assert block.text == shown
        else:
            RUN[block.language](block, names)
        shown = capsys.readouterr().out


def run_shell(text, status=0):
    """Run commands, and return what they print."""
    environment = os.environ | {"COLUMNS": "80"}
    settings = {"env": environment, "timeout": 240, "capture_output": True, "text": True}
    done = subprocess.run(["bash", "-c", SHELL + text], **settings)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def run_bash(block, names):
    print(run_shell(block.text, int(block.comments.get("status", 0))), end="")


def run_python(block, names):
    # a traceback has the page's lines
    exec(compile("\n" * block.line + block.text, block.page, "exec"), names)


def run_doctest(block, names):
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    test = parser.get_doctest(block.text, names, str(block), block.page, block.line)
    assert not runner.run(test).failed


RUN = {
    "bash": run_bash,
    "json": lambda block, _: json.loads(block.text),
    "pycon": run_doctest,
    "python": run_python,
}
