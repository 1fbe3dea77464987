"""`barl reproduce` as users start it."""

import csv
import json
import subprocess
import sys
from statistics import mean

import pytest


def reproduce(*options):
    command = [sys.executable, "-m", "barl_trl.cli", "reproduce", *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True)


def test_triplets_writes_results_curves_and_a_picture(tmp_path):
    done = reproduce("triplets", "--seeds", 2, "--iterations", 2, "--output_dir", tmp_path)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert list(results["arms"]) == ["rl", "barl-27", "barl-3"]
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


def test_quick_and_more_arms(tmp_path):
    options = ("--quick", "--iterations", 8, "--more_arms", "--output_dir", tmp_path)
    assert reproduce("triplets", *options).returncode == 0
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results["arms"]) == 7
    assert (results["settings"]["iterations"], results["settings"]["seeds"]) == (1, 1)


@pytest.mark.slow
def test_barl_generalises_and_rl_does_not_with_every_seed(tmp_path):
    """The claims of the paper's section 4, in full: 6 seeds."""
    done = reproduce("triplets", "--seeds", 6, "--output_dir", tmp_path)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    iterations = results["settings"]["iterations"]

    def accuracies(arm, name, iteration):
        here = [r for r in results["records"] if (r["arm"], r["iteration"]) == (arm, iteration)]
        assert len(here) == 6
        return [record[name] for record in here]

    assert min(accuracies("rl", "train_accuracy", iterations)) >= 0.99
    assert max(accuracies("rl", "unseen_accuracy", iterations)) <= 0.15
    for name in ("train_accuracy", "unseen_accuracy"):
        assert min(accuracies("barl-27", name, iterations)) >= 0.9
        assert min(accuracies("barl-3", name, iterations // 2)) >= 0.9
        assert mean(accuracies("barl-3", name, iterations // 2)) >= 0.97


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
