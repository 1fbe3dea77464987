"""`barl reproduce` as users start it."""

import csv
import json
import subprocess
import sys

import pytest


def reproduce(*options):
    command = [sys.executable, "-m", "barl_trl.cli", "reproduce", *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True)


def test_triplets_writes_results_curves_and_a_picture(tmp_path):
    done = reproduce("triplets", "--seeds", 2, "--iterations", 2, "--output_dir", tmp_path)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert list(results["titles"]) == ["rl", "barl-27", "barl-3"]
    runs = {(record["arm"], record["seed"]) for record in results["records"]}
    assert len(runs) == 6
    assert all(0 <= record["unseen_accuracy"] <= 1 for record in results["records"])
    assert results["settings"]["iterations"] == 2
    with (tmp_path / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(results["records"]) == 18
    assert (tmp_path / "triplets.png").read_bytes().startswith(b"\x89PNG")
    assert "RL (REINFORCE)" in done.stdout
    assert "best Markovian policy, 3 hypotheses" in done.stdout


def test_quick_and_literal(tmp_path):
    options = ("--quick", "--iterations", 8, "--literal", "--output_dir", tmp_path)
    assert reproduce("triplets", *options).returncode == 0
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results["titles"]) == 6
    assert (results["settings"]["iterations"], results["settings"]["seeds"]) == (1, 1)


def test_tree_writes_results_and_a_picture(tmp_path):
    done = reproduce("tree", "--output_dir", tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(json.loads((tmp_path / "results.json").read_text())["trees"]) == 10
    assert (tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG")
    assert "│ 191 " in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "the following arguments are required: EXAMPLE"),
        (("triplet",), "invalid choice: 'triplet' (choose from"),
        (("triplets", "--seeds", "0"), "must be a whole number of at least 1, got '0'"),
    ],
)
def test_a_mistake_is_said(options, message):
    done = reproduce(*options)
    assert done.returncode == 2
    assert message in done.stderr
