"""The walkthrough on a real model, with a tiny one and few steps."""

import json
import re
import subprocess
import sys

import pytest

from barl_trl import cli

from ..paths import ROOT

FOLDER = ROOT / "examples" / "real_model"


def run(script, *options):
    command = [sys.executable, str(FOLDER / script), *map(str, options)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    run("problems.py", folder, "--train", 300, "--test", 50, "--solutions", 40)
    return folder


def test_solutions_lead_to_the_answer_in_right_steps(data):
    for row in rows(data / "solutions.jsonl"):
        *steps, last = row["solution"].split("\n")
        assert last == rf"The answer is \boxed{{{row['answer']}}}."
        sums = [re.search(r"([\d+*\- ]+) = (\d+)", step) for step in steps]
        assert all(eval(found[1]) == int(found[2]) for found in sums)
        assert sums[-1][2] == row["answer"]


def test_no_problem_is_in_two_files(data):
    problems = [row["problem"] for path in data.glob("*.jsonl") for row in rows(path)]
    assert len(problems) == len(set(problems)) == 390


@pytest.mark.slow
def test_warm_up_training_and_evaluation(data, tmp_path, model_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    warm, out = tmp_path / "warm", tmp_path / "out"
    run("warm_up.py", model_path, data / "solutions.jsonl", warm, "--steps", 2)
    recipe = FOLDER / "recipe.yaml"
    options = ["--model_name_or_path", warm, "--dataset_name", data / "train.jsonl"]
    options += ["--output_dir", out, "--max_steps", 1]
    cli.main(["train", "--config", str(recipe), *map(str, options)])
    test = ["--benchmarks", f"test={data / 'test.jsonl'}", "--max_tokens", "8", "--limit", "4"]
    cli.main(["evaluate", "--model", str(out), *test, "--output_dir", str(tmp_path / "responses")])
    results = json.loads((tmp_path / "responses" / "results.json").read_text())
    assert results["template"] == "as trained"
    assert results["benchmarks"]["test"]["num_problems"] == 4
