"""Trainings of the explorer: the file of an arm has a run for each seed."""

from functools import partial
from statistics import fmean

import pytest

from barl_trl.report.json_files import read_json
from experiments.credit.arms import ARMS
from experiments.credit.explorer import runs
from experiments.credit.explorer.simulation import WORLDS
from experiments.credit.explorer.training import batch_cosines, train

ARM, CONDITION = "progress", "cut_off"
quickly = partial(batch_cosines, batches=5, reference_prompts=200)


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    path = tmp_path_factory.mktemp("explorer") / "progress.json"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runs, "batch_cosines", quickly)
        runs.run_into(path, CONDITION, ARM, 2)
    return read_json(path)


def test_quality_is_that_of_the_gradients_at_the_start(record):
    expected = quickly({ARM: ARMS[ARM]}, WORLDS[CONDITION])[ARM]
    assert record["bias"] == expected.bias
    assert record["quality"] == [expected.quality, expected.error]


def test_runs_are_those_of_the_seeds(record):
    assert (record["arm"], record["condition"]) == (ARM, CONDITION)
    assert [run["seed"] for run in record["runs"]] == [0, 1]
    expected = train(ARMS[ARM], WORLDS[CONDITION], 1)
    last = record["runs"][1]
    assert last["curve"] == [[e.step, e.accuracy, e.longer_accuracy] for e in expected]
    assert record["runs"][0]["curve"] != last["curve"]


def test_a_run_has_its_mean_behind_the_start_and_its_end(record):
    for run in record["runs"]:
        assert [step for step, *_ in run["curve"]] == [0, 20, 40, 60, 80]
        assert run["mean_accuracy"] == pytest.approx(fmean(a for _, a, _ in run["curve"][1:]))
        assert [run["accuracy"], run["longer_accuracy"]] == run["curve"][-1][1:]
        assert run["longer_accuracy"] > run["accuracy"]
