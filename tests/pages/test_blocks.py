"""Every block of code in the pages is run, or says why not; every `barl` command is parsed."""

import contextlib
import doctest
import io
import json
import os
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

from ..paths import ROOT
from ..preloaded import PRELOADED
from .blocks import BLOCKS, PAGES, blocks_of
from .command_lines import check_command, command_lines, parse_barl

LANGUAGES = {"python", "pycon", "bash", "yaml", "json", "jsonl", "text", "bibtex"}
PROCESSES = f"""
preloaded() {{ {shlex.join(PRELOADED)} "$@"; }}
barl() {{ preloaded barl_trl.cli "$@"; }}
python() {{ case "$1" in *.py) preloaded "$@";; *) {sys.executable} "$@";; esac; }}
"""
"""`barl` and `python FILE`, in processes that start at once."""


def places(blocks):
    return pytest.mark.parametrize("block", blocks, ids=lambda block: block.place)


def is_run(block):
    return "not run" not in block.comments


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder like a fresh clone, as far as the pages name its files; outputs go to itself."""
    for name in ("examples", "src", "accelerate_configs", "recipes"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for block in BLOCKS:
        if block.title:  # other tests have modules of the same name
            name = Path(block.title).stem
            monkeypatch.setitem(sys.modules, name, None)
            monkeypatch.delitem(sys.modules, name)
    return tmp_path


@places(BLOCKS)
def test_a_block_has_a_language_and_a_reason_if_it_is_not_run(block):
    assert block.language in LANGUAGES
    assert all(reason.strip() for reason in block.comments.values())


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_block_is_merely_indented(path):
    """Such a block has neither a language nor a comment."""
    assert "code_block" not in {token.type for token in MarkdownIt().parse(path.read_text())}


@places([block for block in BLOCKS if block.language == "bash"])
def test_every_command_has_options_that_exist(block, folder):
    lines = command_lines(block.comments.get("before", "") + "\n" + block.text, folder)
    assert lines
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for words in lines:
            check_command(words)


def runs(pages):
    """Each page, and with the mark of slow tests each one with slow blocks."""
    for page in dict.fromkeys(block.page for block in pages):
        name = str(page.relative_to(ROOT))
        blocks = [block for block in blocks_of(page) if is_run(block)]
        for is_slow in (False, True):
            wanted = [block for block in blocks if ("slow" in block.comments) == is_slow]
            marks = [pytest.mark.slow] if is_slow else []
            if wanted:
                yield pytest.param(wanted, marks=marks, id=name)


@pytest.mark.parametrize("blocks", list(runs(BLOCKS)))
def test_the_blocks_of_a_page_run_one_after_the_other(blocks, folder):
    """They share a folder and Python's names; a block of text is what the one before printed."""
    names, shown = {}, None
    for block in blocks:
        print(block.place)
        if "before" in block.comments:
            shell(block.comments["before"], folder)
        if block.title:
            (folder / block.title).write_text(block.text)
        shown = RUN[block.language](block, folder, names, shown)


def run_python(block, folder, names, shown):
    source = "\n" * block.line + block.text  # a traceback has the page's lines
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(source, block.page, "exec"), names)
    return out.getvalue()


def run_doctest(block, folder, names, shown):
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    test = parser.get_doctest(block.text, dict(names), block.place, block.page, block.line)
    said = []
    assert not runner.run(test, out=said.append, clear_globs=False).failed, "".join(said)
    names |= test.globs


def run_bash(block, folder, names, shown):
    return shell(block.text, folder, status=int(block.comments.get("status", 0)))


def shell(text, folder, *, status=0):
    """Run commands; return what they print."""
    script = f"set -eu\n{PROCESSES}\n{text}"
    environment = os.environ | {"COLUMNS": "80"}
    settings = {"cwd": folder, "env": environment, "timeout": 240}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, **settings)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def run_yaml(block, folder, names, shown):
    """Read options of a recipe, to which model and data are added; or a whole one."""
    values = yaml.safe_load(block.text)
    given = {"model_name_or_path": "model", "dataset_name": "data.jsonl", "output_dir": "out"}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(given | values))
    parse_barl(["train", "--config", "recipe.yaml"])


def run_json(block, folder, names, shown):
    json.loads(block.text)


def run_jsonl(block, folder, names, shown):
    assert [json.loads(line) for line in block.text.splitlines()]


def compare_text(block, folder, names, shown):
    assert words_of(block.text) == words_of(shown)
    return shown


def words_of(text):
    return [" ".join(line.split()) for line in text.strip().splitlines()]


RUN = {
    "python": run_python,
    "pycon": run_doctest,
    "bash": run_bash,
    "yaml": run_yaml,
    "json": run_json,
    "jsonl": run_jsonl,
    "text": compare_text,
}
