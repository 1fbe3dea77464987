"""The benchmark of the page, small."""

import subprocess
import sys

import pytest

from ..benchmarks.test_scripts import table_of
from ..paths import ROOT

pytestmark = pytest.mark.browser


def test_benchmark_prints_sizes_and_times():
    command = [sys.executable, str(ROOT / "benchmarks" / "inspector.py"), "--rollouts", "64"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    header, _, *rows = shown.split("\n\n")[1].splitlines()
    measured = {name: float(row["measured"]) for name, row in table_of(header, rows).items()}
    assert measured["list of 64 rollouts, ms"] > 0 and measured["a rollout opened, ms"] > 0
    assert measured["page without data, kB"] < 400
