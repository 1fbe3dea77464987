"""Parts of the evidence: which files their jobs write, and what sections say of given files."""

import json
import math
import pickle
import random
import re
from statistics import mean, stdev

import pytest
from scipy.stats import ttest_rel

from barl_trl.synthetic.search import TINY_MODEL_DIR
from experiments.credit.arms import ARMS
from experiments.credit.explorer import runs as explorer_runs
from experiments.credit.explorer import simulation as explorer
from experiments.credit.parts import PARTS
from experiments.credit.search import checkpoints
from experiments.credit.search import runs as search_runs
from experiments.credit.search.short_training import ShortTraining

LETTERS = list(PARTS)
TRAININGS = {"C": "cut_off", "D": "memorisation", "E": "standard"}


def jobs_of(letter, folder, seeds=None):
    return PARTS[letter].jobs(folder, seeds or PARTS[letter].seeds)


def write(path, record):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record))


def cells(table):
    """Its rows by their first cells."""
    assert {len(row) for row in table["rows"]} == {len(table["columns"])}
    return {first: others for first, *others in table["rows"]}


def average(values):
    """Mean and standard error, in %."""
    text = f"{100 * mean(values):.1f}"
    if len(values) == 1:
        return text
    return f"{text} ± {100 * stdev(values) / math.sqrt(len(values)):.1f}"


def difference(values, others):
    """Mean of the paired differences and its interval, in points, by scipy's test."""
    if len(values) == 1 or values is others:
        return ""
    low, high = ttest_rel(values, others).confidence_interval(0.95)
    return f"{100 * (mean(values) - mean(others)):+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


# Jobs


def test_jobs_of_all_parts_have_files_of_their_own(tmp_path):
    paths = []
    for letter in LETTERS:
        stages = jobs_of(letter, tmp_path / letter)
        assert all(stages)
        for job in (job for stage in stages for job in stage):
            paths.append(job.path)
            assert tmp_path / letter in job.path.parents
            assert pickle.loads(pickle.dumps(job)) == job  # for other processes
    assert len(set(paths)) == len(paths) > 100


@pytest.mark.parametrize("letter", TRAININGS)
def test_trainings_compare_arms_with_grpo_on_the_same_seeds(tmp_path, letter):
    [stage] = jobs_of(letter, tmp_path, 3)
    runs = [job.arguments for job in stage]
    arms = list(dict.fromkeys(arm for _, arm, _ in runs))
    assert "grpo" in arms
    assert set(arms) <= set(ARMS)
    assert sorted(runs) == sorted((TRAININGS[letter], arm, n) for arm in arms for n in range(3))
    assert all(job.function is search_runs.run_into for job in stage)
    assert all(seed != checkpoints.SEED for *_, seed in runs)


def test_the_explorer_is_trained_with_all_arms_under_all_conditions(tmp_path):
    [stage] = jobs_of("B", tmp_path, 3)
    arms = explorer_runs.COMPARED_ARMS
    assert set(arms) <= set(ARMS)
    assert [job.arguments for job in stage] == [
        (condition, arm, 3) for condition in explorer.WORLDS for arm in arms
    ]
    assert all(job.function is explorer_runs.run_into for job in stage)


def test_checkpoints_are_judged_when_they_are_there(tmp_path):
    first, late = jobs_of("A", tmp_path)
    trained = [job for job in first if job.function is checkpoints.run_into]
    assert [job.arguments for job in trained] == [(arm,) for arm in checkpoints.TRAINED]
    steps, every = search_runs.CONDITIONS["standard"].steps, ShortTraining().evaluate_every
    written = [
        str(job.path.with_suffix("") / f"step-{step}")  # as `run_into` has it
        for job in trained
        for step in range(every, steps + 1, every)
    ]
    judged = [job for job in (*first, *late) if job.function is checkpoints.judge_into]
    assert [job.arguments[0] for job in judged] == [str(TINY_MODEL_DIR)] * 2 + written
    conditions = ["standard", "cut_off"] + ["standard"] * len(written)
    assert [job.arguments[1] for job in judged] == conditions
    assert set(judged[0].arguments[2]) == set(ARMS)
    assert set(checkpoints.TRAINED) <= set(late[0].arguments[2]) <= set(ARMS)
    assert not {job.path.with_suffix("") for job in judged} & {
        job.path.with_suffix("") for job in trained
    }


# Sections of trainings


def training_files(letter, folder, seeds):
    """Writes the runs' files; returns what the last evaluations measured, by arm and test."""
    luck, values = random.Random(seeds), {}
    [stage] = jobs_of(letter, folder, seeds)
    for job in stage:
        condition, arm, seed = job.arguments
        last = {"step": 40, "accuracy/tokens": 50.0 + seed}
        for test in search_runs.CONDITIONS[condition].tests:
            last[test] = luck.random()
            values.setdefault(arm, {}).setdefault(test, []).append(last[test])
        first = dict.fromkeys(last, 9.0)
        write(job.path, {"arm": arm, "seed": seed, "evaluations": [first, first, last]})
    return values


@pytest.mark.parametrize(("letter", "seeds"), [("C", 3), ("D", 8), ("E", 1)])
def test_trainings_are_compared_by_their_last_evaluations(tmp_path, letter, seeds):
    values = training_files(letter, tmp_path, seeds)
    section = PARTS[letter].section(tmp_path, seeds)
    assert section["title"] == PARTS[letter].title
    assert f" {seeds} seeds. " in section["text"]
    [table] = section["tables"]
    tests = search_runs.CONDITIONS[TRAININGS[letter]].tests
    assert [re.findall(r"\d+", column) for column in table["columns"][1:-1:2]] == [
        [str(candidates), str(tokens)] for candidates, tokens in tests.values()
    ]
    assert table["columns"][2:-1:2] == ["difference to GRPO"] * len(tests)
    found = cells(table)
    assert list(found) == list(values)
    for arm, of_tests in values.items():
        expected = []
        for test, numbers in of_tests.items():
            expected += [average(numbers), difference(numbers, values["grpo"][test])]
        assert found[arm] == [*expected, f"{50 + (seeds - 1) / 2:.0f}"]


# The section of the explorer

MEASURES = ("mean_accuracy", "accuracy", "longer_accuracy")


def explorer_files(folder, seeds):
    luck, values = random.Random(0), {}
    [stage] = jobs_of("B", folder, seeds)
    for job in stage:
        condition, arm, _ = job.arguments
        runs = [{name: luck.random() for name in MEASURES} for _ in range(seeds)]
        values[condition, arm] = runs
        write(job.path, {"arm": arm, "bias": 0.987, "quality": [0.5, 0.012], "runs": runs})
    return values


@pytest.mark.parametrize("seeds", [2, 4])
def test_the_explorer_has_a_table_for_each_condition(tmp_path, seeds):
    values = explorer_files(tmp_path, 4)  # of more seeds, the first ones are taken
    section = PARTS["B"].section(tmp_path, seeds)
    assert f" of {seeds} seeds " in section["text"]
    assert [table["caption"] for table in section["tables"]] == list(explorer.WORLDS)
    for table in section["tables"]:
        runs = {
            arm: {name: [run[name] for run in values[table["caption"], arm]] for name in MEASURES}
            for arm in explorer_runs.COMPARED_ARMS
        }
        found = cells(table)
        assert list(found) == list(runs)
        for arm, measured in runs.items():
            few = {name: numbers[:seeds] for name, numbers in measured.items()}
            grpo = runs["grpo"]["longer_accuracy"][:seeds]
            assert found[arm] == [
                *("0.99", "0.50 ± 0.01"),
                *(average(few[name]) for name in MEASURES),
                "" if arm == "grpo" else difference(few["longer_accuracy"], grpo),
            ]


def test_an_explorer_of_fewer_seeds_is_not_taken_for_one_of_more(tmp_path):
    explorer_files(tmp_path, 2)
    message = "output_dir must hold runs of 3 seeds, got 2 in .*: name another folder"
    with pytest.raises(ValueError, match=message):
        PARTS["B"].section(tmp_path, 3)


# The section of gradients

JUDGED = {
    "arm": "barl",
    "bias": [0.98, 0.01],
    "quality": [0.4567, 0.0123],
    "gain": [0.031, 0.012],
    "beyond_control": [-0.02, 0.01],
    "answered": [0.0123, 0.002],
    "tokens": [-3.5, 0.25],
    "entropy": [math.nan, math.nan],
    "correlation": 0.456,
}
KNOWN = {name: JUDGED[name] for name in JUDGED.keys() - {"beyond_control"}}


def test_gradients_have_a_table_for_each_checkpoint(tmp_path):
    judged = [
        job
        for stage in jobs_of("A", tmp_path)
        for job in stage
        if job.function is checkpoints.judge_into
    ]
    for number, job in enumerate(judged):
        known = KNOWN | {"arm": "monte carlo", "correlation": None}
        write(job.path, [JUDGED | {"tokens": [number, 0.25]}, known])
    section = PARTS["A"].section(tmp_path, 1)
    judgement = checkpoints.JUDGEMENT
    rollouts = judgement.prompts * judgement.group_size
    opening = f"There are {judgement.batches} batches of {rollouts} rollouts."
    assert section["text"].startswith(opening)
    captions = [table["caption"] for table in section["tables"]]
    assert captions[:3] == ["At: shipped, standard", "At: shipped, cut_off", "At: grpo after 20"]
    assert len(captions) == len(set(captions)) == len(judged)
    for number, table in enumerate(section["tables"]):
        found = cells(table)
        assert found["barl"] == [
            *("0.98 ± 0.01", "0.46 ± 0.01", "+0.03 ± 0.01", "-0.02 ± 0.01"),
            *("+1.23 ± 0.20", f"+{number}.00 ± 0.25", "noise", "0.46"),
        ]
        assert found["monte carlo"][3] == found["monte carlo"][-1] == ""
