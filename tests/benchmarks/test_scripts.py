"""Benchmarks as users start them, small."""

import json
import os
import subprocess
import sys
from itertools import pairwise

import pytest

from ..paths import ROOT
from ..preloaded import PRELOADED

BENCHMARKS = ROOT / "benchmarks"
pytestmark = pytest.mark.slow


def run_benchmark(script, *options):
    """Runs a script; returns its Markdown tables, as row name -> column name -> cell."""
    command = [*PRELOADED, str(BENCHMARKS / script), *options]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    # DeepSpeed prints lines, too, also between those of a table
    lines = [line for line in shown.splitlines() if line.startswith("|")]
    headers = [n - 1 for n, line in enumerate(lines) if line.startswith(("|---", "| ---"))]
    tables = [lines[start:stop] for start, stop in pairwise([*headers, None])]
    return [table_of(header, rows) for header, _, *rows in tables]


def table_of(header, rows):
    columns, *cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in (header, *rows)]
    return {row[0]: dict(zip(columns, row, strict=True)) for row in cells}


def test_answers_are_judged_beside_math_verify():
    costs, verdicts = run_benchmark("answers.py", "--quick")
    assert float(costs["math-verify: completions"]["CPU s"]) > 0
    ours = verdicts["barl_trl: extract, verify, merge"]
    assert float(ours["accuracy, boxed"]) >= 0.97
    assert ours["rewards without a closed box"] == ours["time-outs, crashes"] == "0"


def test_public_completions_are_judged_right(tmp_path):
    path = tmp_path / "wrong.json"
    run_benchmark("public_completions.py", "--json", str(path))
    wrong = json.loads(path.read_text())
    assert wrong["math_verify, `stated`"] == []
    assert all(case.startswith("fmt.") for case in wrong["math_verify"])  # without a box


RECORDED = 160
"""Tokens that scoring feeds the demo's model per rollout, at the benchmark's shape. A tenth more it
would be without any one of: the shared prompt, the shared s_0, the answers' shared tokens.
"""


def test_scoring_feeds_no_more_tokens_than_recorded(tmp_path):
    path = tmp_path / "scoring.json"
    run_benchmark("scoring.py", "--quick", "--json", str(path))
    ways = {record["way"]: record for record in json.loads(path.read_text())}
    assert {*ways} > {"plain", "released", "re-encoding", "cache rows"}
    assert ways["default"]["tokens"] <= 1.1 * RECORDED >= ways["default, fused"]["tokens"]


def test_memory_of_a_pass_is_what_is_estimated(tmp_path):
    path = tmp_path / "memory.json"
    run_benchmark("memory.py", "--quick", "--json", str(path))
    passes = [record for record in json.loads(path.read_text()) if "measured" in record]
    assert len(passes) == 3
    assert all(0.8 < one["measured"] / one["estimate"] < 1.2 for one in passes)


def test_families_are_compared_with_naive_forwards():
    (table,) = run_benchmark("families.py", "gemma3_text", "mamba2")
    ways = {family: row["way"] for family, row in table.items()}
    assert ways == {"gemma3_text": "prefixes are shared", "mamba2": "re-encoded"}


def test_a_run_that_is_killed_again_and_again_reaches_the_same_parameters(tmp_path):
    path = tmp_path / "soak.json"
    run_benchmark("soak.py", "--quick", "--json", str(path))
    record = json.loads(path.read_text())
    assert record["equal"] and record["ended"] == record["planned"]


def test_an_agents_scoring_is_timed_for_each_belief():
    (table,) = run_benchmark("agent_scoring.py", "--steps", "2")
    fed = [int(float(row["tokens fed"].replace(",", ""))) for row in table.values()]
    assert fed[0] > fed[1] == fed[2] > fed[3] == 0  # all answers, the truth alone, none
    assert len({row["turns"] for row in table.values()}) == 1  # the same rollouts


def test_all_parts_for_a_gpu_run_small(tmp_path):
    environment = os.environ | {"TINY": "1", "PYTHON": sys.executable, "END": "2000"}
    command = ["bash", str(BENCHMARKS / "on_gpu.sh"), str(tmp_path)]

    def lines(*parts):
        options = {"check": True, "env": environment, "capture_output": True, "timeout": 1800}
        subprocess.run([*command, *parts], **options)
        written = (tmp_path / "results.jsonl").read_text().splitlines()
        return [json.loads(line) for line in written]

    names = ("prepare", "machine", "step", "scoring", "decode", "static", "paged", "bfloat16")
    found = lines(*(f"{name}:300" for name in names))
    assert not [line for line in found if "error" in line or "stood_at" in line]
    assert [line["part"] for line in found if line.get("exit") == 0] == [*names]
    assert {line["what"] for line in found if "round" in line} == {"barl", "grpo"}
    ended = lines("step:2")[len(found) :]  # before its imports are done
    assert ended[-1]["exit"] or "stood_at" in ended[-2]
