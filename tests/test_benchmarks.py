"""Benchmarks as users start them, small."""

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run_benchmark(script, *options):
    """Runs a script; returns its Markdown tables, as row name -> column name -> cell."""
    command = [sys.executable, str(BENCHMARKS / script), *options]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    blocks = [block.splitlines() for block in shown.split("\n\n") if block.startswith("| ")]
    return [table_of(header, rows) for header, _, *rows in blocks]


def table_of(header, rows):
    columns, *cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in (header, *rows)]
    return {row[0]: dict(zip(columns, row, strict=True)) for row in cells}


def test_answers_prints_costs_and_verdicts():
    costs, verdicts = run_benchmark("answers.py", "--prompts", "16")
    assert {*costs} > {"barl_trl: extract, verify, merge", "math-verify: parse, verify"}
    # So few answers may need no process at all, and then cost less than is printed.
    assert all(float(row["CPU s"]) >= 0 and float(row["wall s"]) >= 0 for row in costs.values())
    assert float(costs["math-verify: parse, verify"]["CPU s"]) > 0
    ours = verdicts["barl_trl: extract, verify, merge"]
    assert float(ours["accuracy, boxed"]) >= 0.97
    assert ours["rewards without a closed box"] == ours["time-outs, crashes"] == "0"
