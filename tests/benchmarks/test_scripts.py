"""Benchmarks as users start them, small."""

import json
import os
import re
import subprocess
import sys
from itertools import pairwise

import pytest

from ..paths import ROOT
from ..preloaded import PRELOADED

BENCHMARKS = ROOT / "benchmarks"


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


@pytest.mark.slow
def test_answers_prints_costs_and_verdicts(tmp_path):
    path = tmp_path / "answers.json"
    costs, verdicts = run_benchmark("answers.py", "--quick", "--json", str(path))
    assert [record["way"] for record in json.loads(path.read_text())] == [*costs]
    assert {*costs} > {"barl_trl: extract, verify, merge", "math-verify: completions"}
    # So few answers may need no process at all, and then cost less than is printed.
    assert all(float(row["CPU s"]) >= 0 and float(row["wall s"]) >= 0 for row in costs.values())
    assert float(costs["math-verify: completions"]["CPU s"]) > 0
    ours = verdicts["barl_trl: extract, verify, merge"]
    assert float(ours["accuracy, boxed"]) >= 0.97
    assert ours["rewards without a closed box"] == ours["time-outs, crashes"] == "0"


@pytest.mark.slow
def test_answer_cases_are_counted_by_family(tmp_path):
    path, cases = tmp_path / "cases.json", ROOT / "tests" / "cases" / "answers.jsonl"
    (table,) = run_benchmark("answer_cases.py", str(cases), "--quick", "--json", str(path))
    *families, whole = records = json.loads(path.read_text())
    assert [record["family"] for record in records] == [*table]
    assert sum(record["pairs"] for record in families) == whole["pairs"] == 40
    for grader in ("math_verify", "qwen", "string"):
        right = sum(record[grader]["right"] for record in families)
        assert right == whole[grader]["right"] > 20


@pytest.mark.slow
def test_public_completions_are_judged_as_the_page_says(tmp_path):
    path, page = tmp_path / "wrong.json", (ROOT / "docs" / "graders.md").read_text()
    (table,) = run_benchmark("public_completions.py", "--json", str(path))
    wrong = json.loads(path.read_text())
    assert wrong["math_verify, `stated`"] == []
    assert all(case.startswith("fmt.") for case in wrong["math_verify"])  # without a box
    for row in table.values():
        assert f"| {' | '.join([*row.values()][1:])} |" in page


@pytest.mark.slow
def test_answer_properties_hold_and_are_counted(tmp_path):
    path = tmp_path / "properties.json"
    (table,) = run_benchmark("answer_properties.py", "--quick", "--json", str(path))
    record = json.loads(path.read_text())
    assert [*record["counts"]] == [*table]
    assert sum(int(row["pairs"]) for row in table.values()) == 100
    assert not any(int(row["crash"]) for row in table.values())
    assert ["1/2", "50\\%", "50"] in record["triples"]
    assert not record["one_way"]


RECORDED = {"default": 160, "default, fused": 160, "default, generated": 84}
"""Tokens that scoring feeds the demo's model per rollout, at the benchmark's shape. A tenth more it
would be without any one of: the shared prompt, the shared s_0, the answers' shared tokens.
"""


@pytest.mark.slow
def test_scoring_feeds_no_more_tokens_than_recorded(tmp_path):
    path = tmp_path / "scoring.json"
    (costs,) = run_benchmark("scoring.py", "--quick", "--json", str(path))
    ways = {record["way"]: record for record in json.loads(path.read_text())}
    assert {*costs} == {*ways} > {"plain", "released", "re-encoding", "masked row"}
    for way, tokens in RECORDED.items():
        assert ways[way]["tokens"] <= 1.1 * tokens
    assert all(record["seconds"] > 0 for record in ways.values())


@pytest.mark.slow
def test_training_step_compares_equal_rollouts(tmp_path):
    path = tmp_path / "step.json"
    (costs,) = run_benchmark("training_step.py", "--quick", "--json", str(path))
    (record,) = json.loads(path.read_text())
    assert [*costs] == [record["model"]] == ["demo"]
    assert record["scoring_tokens"] > 0 < record["scoring_seconds"]
    assert all(len(seconds) == 2 for seconds in record["seconds"].values())


@pytest.mark.slow
def test_the_belief_is_timed_by_parts(tmp_path):
    path = tmp_path / "belief.json"
    (parts,) = run_benchmark("belief_update.py", "--quick", "--json", str(path))
    record = json.loads(path.read_text())
    assert record["hypotheses"] == 27 and record["shape"]["rollouts"] == 16
    assert record["entropy"][0] > 3.29 > record["entropy"][1]  # log 27, and what pegs leave
    assert len(parts) == len(record["parts"]) + 1
    assert all(len(seconds) == 2 for seconds in record["parts"].values())
    assert sum(map(sum, record["parts"].values())) < 3 * sum(record["cpu_seconds"]["bayes"])


@pytest.mark.slow
def test_record_writing_is_timed_beside_a_step_without(tmp_path):
    path = tmp_path / "records.json"
    step, batch = run_benchmark("record_writing.py", "--quick", "--json", str(path))
    found = json.loads(path.read_text())
    assert [*step] == ["demo"] and [*batch][-2:] == ["sent", "file"]
    assert len(found["step"]["recording_cpu_seconds"]) == 2
    assert found["batch"]["rollouts"] == 160
    assert 1000 < found["batch"]["bytes_per_rollout"] < 20_000


@pytest.mark.slow
def test_memory_of_a_pass_is_what_is_estimated(tmp_path):
    path = tmp_path / "memory.json"
    run_benchmark("memory.py", "--quick", "--json", str(path))
    passes = [record for record in json.loads(path.read_text()) if "measured" in record]
    assert len(passes) == 3
    for record in passes:
        assert 0.8 < record["measured"] / record["estimate"] < 1.2


@pytest.mark.slow
def test_families_are_compared_with_naive_forwards(tmp_path):
    path = tmp_path / "families.json"
    families = ["gemma3n_text", "cpmant"]
    shared, reencoded = run_benchmark("families.py", *families, "--json", str(path))
    assert [*shared, *reencoded] == families
    assert reencoded["cpmant"]["batches"] == "of equal length"
    assert "its tokens see later tokens" in reencoded["cpmant"]["why"]
    records = json.loads(path.read_text())
    assert [record["outcome"] for record in records] == ["shared", "re-encoded"]
    assert all(max(record["difference"], record["re-encoded"]) < 1e-3 for record in records)


@pytest.mark.slow
def test_a_family_that_takes_too_long_is_lost_alone():
    command = [*PRELOADED, str(BENCHMARKS / "families.py"), "qwen2", "mamba", "--timeout", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert done.stdout.count("| it took more than 0 s |") == 2
    assert done.stderr.endswith("Wrong or failed: qwen2, mamba.\n")


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_reaches_the_same_parameters(tmp_path):
    path = tmp_path / "soak.json"
    (ends,) = run_benchmark("soak.py", "--quick", "--json", str(path))
    record = json.loads(path.read_text())
    assert record["equal"] and not record["faults"]
    assert {kind: int(row["happened"]) for kind, row in ends.items()} == record["planned"]
    assert sum(record["planned"].values()) == 5


def test_all_parts_for_a_gpu_end_within_40_minutes():
    text = (BENCHMARKS / "on_gpu.sh").read_text()
    limits = {name: int(limit) for name, limit in re.findall(r"\) run (\w+) (\d+) ", text)}
    assert {*limits} == {"bfloat16", "memory", "plan", "step", "steps", "scoring"}
    assert sum(limits.values()) <= 40 * 60


@pytest.mark.slow
def test_all_parts_for_a_gpu_run_small(tmp_path):
    command = ["bash", str(ROOT / "benchmarks" / "on_gpu.sh"), str(tmp_path)]
    environment = os.environ | {"QUICK": "--quick", "PYTHON": sys.executable}
    subprocess.run(command, check=True, env=environment, capture_output=True, timeout=1200)
    parts = {"machine", "bfloat16", "memory", "plan", "step", "steps", "scoring"}
    written = {path.stem: path.read_text() for path in tmp_path.glob("*.md")}
    assert {*written} == parts
    assert not [part for part, text in written.items() if "failed: exit" in text]
    records = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert {*records} == parts - {"machine"}
    assert records["steps"][0]["steps"] == 2 * records["step"][0]["steps"] == 2
    found = records["bfloat16"]
    assert found["rollouts"] == 4
    assert not any(found[name] for name in ("float32", "bfloat16", "bfloat16, LoRA"))
    to_be_refused = [name for name in found if name.endswith("(to be refused)")]
    assert len(to_be_refused) == 1 + 2 * 5
    assert all(len(found[name]) == 4 for name in to_be_refused)
    assert 0 < found["logp_difference"] < found["logp_spread"]
    assert len(records["plan"]) == 2
    assert all(0.8 < plan["planned"] / plan["measured"] < 1.25 for plan in records["plan"])


@pytest.mark.slow
def test_refusals_are_of_other_weights_alone(tmp_path):
    path = tmp_path / "refusals.json"
    run_benchmark("refusals.py", "qwen2", "olmoe", "--rollouts", "8", "--json", str(path))
    records = json.loads(path.read_text())
    assert [record["family"] for record in records] == ["qwen2", "qwen2", "olmoe", "olmoe"]
    for record in records:
        assert record["refused"] == record["caches refused"] == 0
        assert record["other weights' refused"] == record["caches"] == 2


@pytest.mark.slow
def test_an_agents_scoring_is_timed_for_each_belief():
    (table,) = run_benchmark("agent_scoring.py", "--steps", "2")
    fed = [int(float(row["tokens fed"].replace(",", ""))) for row in table.values()]
    assert fed[0] > fed[1] == fed[2] > fed[3] == 0  # all answers, the truth alone, none
    assert len({row["turns"] for row in table.values()}) == 1  # the same rollouts
    assert all(0 < float(row["s of scoring"]) < float(row["s of a step"]) for row in table.values())


@pytest.mark.slow
def test_large_inputs_small():
    (table,) = run_benchmark("scale.py", "--pairs", "40", "--rows", "300")
    pairs, rows = table.values()
    assert pairs["result"] == "40 different ones, 0 failures, 0 other verdicts"
    assert rows["result"].startswith("297 of 300 rows kept")
    assert all(float(row["CPU s"]) > 0 and float(row["MiB"]) > 20 for row in (pairs, rows))


@pytest.mark.slow
def test_hostile_texts_of_a_reader():
    (table,) = run_benchmark("hostile_texts.py", "truth_answer", "--pairs", "2")
    assert 0 < float(table["truth_answer"]["1000 kB"]) < 5


@pytest.mark.slow
def test_mistakes_are_timed_in_processes_of_their_own(tmp_path):
    path = tmp_path / "mistakes.json"
    (table,) = run_benchmark("mistakes.py", "--quick", "--json", str(path))
    assert [row["status 2, one line"] for row in table.values()] == ["1", "1"]
    records = json.loads(path.read_text())
    assert [one["run"] for one in records["mistakes"]] == ["trian --config good.yaml"]
    assert all(one["cpu_seconds"] > 0 for (one,) in records.values())
