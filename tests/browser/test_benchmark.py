"""The benchmark of the page, small."""

import pytest

from ..benchmarks.test_scripts import run_benchmark

pytestmark = pytest.mark.browser


def test_benchmark_prints_sizes_and_times():
    (table,) = run_benchmark("inspector.py", "--rollouts", "64")
    measured = {name: float(row["measured"]) for name, row in table.items()}
    assert measured["list of 64 rollouts, ms"] > 0 and measured["a rollout opened, ms"] > 0
    assert measured["page without data, kB"] < 400
