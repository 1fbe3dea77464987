"""What a model or a file's name says never commands a terminal, whoever prints it."""

import subprocess
import sys

from ..paths import ROOT
from ..preloaded import PRELOADED

COMMANDS = "\x1b[2J\x1b]0;title\x07\x9b31m\r"


AND_RAISES = (
    "import sys\nfrom barl_trl import cli\ncli.main(['--version'])\nraise ValueError(sys.argv[1])"
)


def is_harmless(text):
    return not any(one in text for one in COMMANDS if not one.isprintable())


def test_a_warning_that_names_a_file(tmp_path):
    name = f"rows{COMMANDS}.jsonl"
    (tmp_path / name).write_text('{"problem": "1+1?", "answer": "2"}\n{\n')
    command = [*PRELOADED, "barl_trl.cli", "data", "check", str(tmp_path / name)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True)
    assert done.returncode == 1
    text = (done.stdout + done.stderr).decode()
    assert r"rows\x1b[2J\x1b]0;title\x07\x9b31m\r.jsonl:2 is no row of the data set" in text
    assert is_harmless(text)


def test_an_error_that_quotes_a_completion():
    """As of a reward function: Python prints its traceback when the command has ended."""
    command = [sys.executable, "-c", AND_RAISES, COMMANDS]
    text = subprocess.run(command, cwd=ROOT, capture_output=True).stderr.decode()
    assert text.startswith("Traceback (most recent call last):\n")
    assert text.endswith("ValueError: \\x1b[2J\\x1b]0;title\\x07\\x9b31m\\r\n")
    assert is_harmless(text)
