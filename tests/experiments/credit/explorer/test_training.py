"""Whether the explorer learns, and whether arms and seeds share what they should."""

import numpy as np
import pytest

from experiments.credit.arms import ARMS
from experiments.credit.explorer import training as explorer_training
from experiments.credit.explorer.simulation import INITIAL_PARAMETERS, WORLDS, simulate
from experiments.credit.explorer.training import batch_cosines, evaluate, train

STANDARD = WORLDS["standard"]


def test_explorer_learns():
    first, *_, last = train(ARMS["grpo"], STANDARD, seed=0)
    assert (first.step, last.step) == (0, 80)
    assert first.accuracy < 0.6
    assert last.accuracy > 0.9
    assert last.tokens > first.tokens


def test_curve_has_the_first_and_the_last_step():
    curve = train(ARMS["rloo"], STANDARD, seed=0, steps=5, evaluate_every=2)
    assert [point.step for point in curve] == [0, 2, 4, 5]
    assert curve[0] == evaluate(INITIAL_PARAMETERS, STANDARD, seed=0)
    assert curve[-1] == evaluate(np.array(curve[-1].parameters), STANDARD, seed=0, step=5)


def test_same_seed_same_curve_and_other_seeds_other_problems():
    same, again, other = (train(ARMS["barl"], STANDARD, seed=seed, steps=3) for seed in (1, 1, 2))
    assert same == again
    assert same[0].accuracy != other[0].accuracy
    assert same[-1].parameters != other[-1].parameters


def test_arms_of_a_seed_see_the_same_problems(monkeypatch):
    seen = {}

    def watched(parameters, condition, num_prompts, group_size, rng, **budget):
        seen[name].append((num_prompts, budget, rng.bit_generator.state["state"]))
        return simulate(parameters, condition, num_prompts, group_size, rng, **budget)

    monkeypatch.setattr(explorer_training, "simulate", watched)
    for name in ("grpo", "progress"):
        seen[name] = []
        train(ARMS[name], WORLDS["cut_off"], seed=0, steps=4, evaluate_every=2)
    assert seen["grpo"] == seen["progress"]
    assert [number for number, *_ in seen["grpo"]].count(16) == 4
    evaluated = [entry for entry in seen["grpo"] if entry[0] == 2000]
    assert [budget["tries"] for _, budget, _ in evaluated] == [5, 30] * 3
    assert len({entry[2]["state"] for entry in evaluated}) == 1


def test_quality_of_gradients():
    arms = {name: ARMS[name] for name in ("rloo", "barl", "barl, own outcomes")}
    found = batch_cosines(arms, WORLDS["confident"], batches=20, reference_prompts=2000)
    assert found["rloo"].bias > 0.97
    assert found["barl, own outcomes"].bias < -0.5
    assert found["rloo"].quality > found["barl"].quality > found["barl, own outcomes"].quality
    for entry in found.values():
        assert len(entry.cosines) == 20
        assert entry.quality == pytest.approx(entry.cosines.mean())
        assert entry.error == pytest.approx(entry.cosines.std(ddof=1) / 20**0.5)
