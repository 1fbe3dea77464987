"""A careless user's mistakes: each ends in one line that says it, before weights are read.

The list is `tests/cases/mistakes.yaml`; `benchmarks/mistakes.py` measures what they cost.
"""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest
import transformers
import yaml

from barl_trl import cli
from barl_trl.synthetic.search import TINY_MODEL_DIR

from ..paths import ROOT
from ..preloaded import PRELOADED

CASES = yaml.safe_load((ROOT / "tests" / "cases" / "mistakes.yaml").read_text())
QUICK, SLOW = (
    {
        case["run"]: case["says"]
        for case in CASES[name]
        if "without" not in case or find_spec(case["without"]) is None
    }
    for name in ("mistakes", "torch")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("careless")


@pytest.fixture(scope="module")
def shown(folder):
    """What each command shows that needs no torch, in a process that cannot import it."""
    command = [sys.executable, ROOT / "benchmarks" / "mistakes.py", "--together", folder]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return {record.pop("run"): record for record in json.loads(done.stdout)}


def check(status, out, err, says):
    """Exit status 2, and one line that has the parts of `says` in this order."""
    assert (status, out) == (2, ""), err
    (line,) = err.splitlines()
    for part in says.split("..."):
        place = line.find(part.strip())
        assert place >= 0, (part, line)
        line = line[place + len(part.strip()) :]


@pytest.mark.parametrize("run", QUICK)
def test_a_mistake_is_said_in_one_line_without_torch(shown, run):
    record = shown[run]
    check(record["status"], record["out"], record["err"], QUICK[run])
    assert record["err"].endswith((".\n", "?\n"))


@pytest.mark.parametrize("run", SLOW)
def test_a_mistake_that_torch_finds_is_said_before_weights_are_read(
    shown, folder, run, monkeypatch, capsys
):
    def read(*_, **__):
        raise AssertionError("the weights are read")

    monkeypatch.setattr(transformers.PreTrainedModel, "_load_pretrained_model", read)
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as stop:
        cli.main([word.replace("MODEL", str(TINY_MODEL_DIR)) for word in run.split()])
    written = capsys.readouterr()
    check(stop.value.code, written.out, written.err, SLOW[run])


@pytest.mark.parametrize("run", [[*QUICK][2], [*SLOW][-1], "data check notes"])
def test_a_process_says_no_more(shown, folder, run):
    arguments = [word.replace("MODEL", str(TINY_MODEL_DIR)) for word in run.split()]
    command = [*PRELOADED, "barl_trl.cli", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    check(done.returncode, done.stdout, done.stderr, (QUICK | SLOW)[run])
