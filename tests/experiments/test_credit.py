"""The comparison of credits: the explorer's gradient, its trainings in short, the table."""

import json
import math
from functools import partial

import numpy as np
import pytest

from experiments import tools
from experiments.credit import __main__ as command
from experiments.credit import explorer
from experiments.credit.arms import ARMS
from experiments.credit.simulation import INITIAL_PARAMETERS, WORLDS, simulate

from ..paths import ROOT


@pytest.mark.parametrize("world", WORLDS)
def test_scores_are_derivatives_of_the_chances_of_what_was_decided(world):
    """The mean score of all decisions is 0, as that of every policy."""
    rng = np.random.default_rng(0)
    rollouts = simulate(INITIAL_PARAMETERS, WORLDS[world], 2000, 2, rng)
    scores = rollouts.scores.sum(axis=1)
    errors = scores.std(axis=0) / math.sqrt(len(scores))
    assert (np.abs(scores.mean(axis=0)) < 4.5 * errors + 1e-12).all()
    assert 0 < rollouts.outcomes.mean() < 1


def test_rloo_climbs_the_accuracy():
    """Its gradient beside differences of the accuracy with the same luck."""
    world, step = WORLDS["standard"], 0.3
    rng = np.random.default_rng(1)
    slope = explorer.gradient(simulate(INITIAL_PARAMETERS, world, 3000, 8, rng), ARMS["rloo"])
    rises = []
    for n in range(len(INITIAL_PARAMETERS)):
        change = step * (np.arange(len(INITIAL_PARAMETERS)) == n)
        ends = [
            simulate(INITIAL_PARAMETERS + sign * change, world, 6000, 1, np.random.default_rng(2))
            for sign in (1, -1)
        ]
        rises.append((ends[0].outcomes.mean() - ends[1].outcomes.mean()) / (2 * step))
    cosine = slope @ rises / np.linalg.norm(slope) / np.linalg.norm(rises)
    assert cosine > 0.95


def test_the_table_is_what_the_explorers_found():
    lines = (ROOT / "experiments/credit/runs.jsonl").read_text().splitlines()
    found = {(run["world"], run["arm"]): run for run in map(json.loads, lines)}
    page = (ROOT / "docs/evidence.md").read_text()
    for arm in command.COMPARED:
        row = ""
        for world in WORLDS:
            key = "longer_accuracy" if world == "cut_off" else "accuracy"
            own, plain = ([100 * r[key] for r in found[world, a]["runs"]] for a in (arm, "grpo"))
            assert len(own) == 20
            row += f" {np.mean(own):.1f} % |" if arm == "grpo" else f" {tools.paired(own, plain)} |"
        assert f"|{row}\n" in page


@pytest.mark.slow
def test_a_comparison_in_short(tmp_path, monkeypatch):
    monkeypatch.setattr(explorer, "EVALUATION_PROBLEMS", 50)
    small = partial(explorer.batch_cosines, batches=3, reference_prompts=50)
    monkeypatch.setattr(explorer, "batch_cosines", small)
    monkeypatch.setattr(explorer, "train", partial(explorer.train, steps=4))
    monkeypatch.setattr(command, "COMPARED", command.COMPARED[:2])

    def run_here(_, jobs, processes):
        return [job.function(job.path, *job.arguments) for job in jobs]

    monkeypatch.setattr(command, "run_jobs", run_here)
    written = tmp_path / "runs.jsonl"
    command.main(["--seeds", "2", "--output_dir", str(tmp_path), "--collect", str(written)])
    page = (tmp_path / "report.md").read_text()
    assert page.count("\n## ") == len(written.read_text().splitlines()) / 2 == 4
    assert "nan" not in page.lower()
