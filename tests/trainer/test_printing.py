"""Standard output that breaks, or is not there, ends no training."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import os, sys
from barl_trl.trainer.logging.printing import accept_any_text, unfailing_output
accept_any_text()
with unfailing_output():
    print("é ± 値" * 40_000, flush=True)
    print("more", file=sys.stderr, flush=True)
with open(sys.argv[1], "w") as file:
    file.write(f"done {sys.stdout.fileno()} {file.fileno() > 2}")
"""


def ran(tmp_path, shell, **environment):
    """Runs the script in a shell's line; returns what it left in a file."""
    done = tmp_path / "done"
    python = f"{sys.executable} -c '{SCRIPT}' {done}"
    subprocess.run(["bash", "-c", shell.format(python)], env=os.environ | environment, check=True)
    return done.read_text()


@pytest.mark.parametrize(
    "shell",
    [
        "{} > /dev/null",
        "{} >&-",
        "{} >&- 2>&-",
        "{} > /dev/full 2> /dev/full",
        "{} | true; sleep 1",
    ],
)
def test_text_that_cannot_be_written_is_lost_and_nothing_else(tmp_path, shell):
    assert ran(tmp_path, shell, PYTHONIOENCODING="ascii") == "done 1 True"


def test_what_an_encoding_lacks_is_a_question_mark(tmp_path):
    ran(tmp_path, "{} > " + str(tmp_path / "out"), PYTHONIOENCODING="ascii")
    text = (tmp_path / "out").read_text()
    assert text.startswith("? ? ?? ?") and len(text) == 200_001


def test_a_pipe_that_is_full_is_not_waited_for(tmp_path):
    """As of a terminal that another program made non-blocking."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "done")]
    subprocess.run(command, stdout=writing, check=True)
    assert (tmp_path / "done").read_text() == "done 1 True"
    os.close(reading)
    os.close(writing)
