"""`barl analyze` as users start it."""

import json
import os
import subprocess
import sys

import pytest

from ..evaluation.files import problems, response, write_responses

REWARDS = [[1, 0, 0], [0, 0, 0], [1, 1, 1]]


def analyze(*options):
    command = [sys.executable, "-m", "barl_trl.cli", "analyze", *map(str, options)]
    environment = os.environ | {"COLUMNS": "100"}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def results(path):
    return json.loads(path.read_text())


@pytest.fixture
def folders(tmp_path, model_path):
    """Two models' samples, and their greedy responses."""

    def write(name, rewards):
        folder = tmp_path / name
        write_responses(folder, problems(rewards), benchmark="gsm8k", model=model_path)
        return write_responses(folder, problems(rewards), model=model_path)

    return {
        "sampled": [write("barl", REWARDS), write("grpo", [[0, 0, 0]] * 3)],
        "greedy": [write("greedy-barl", [[1], [0], [1]]), write("greedy-grpo", [[0]] * 3)],
    }


def test_efficiency_of_several_models_with_and_without_the_greedy_response(folders, tmp_path):
    out = tmp_path / "out"
    options = ("--sampled", *folders["sampled"], "--greedy", *folders["greedy"], "--max_k", 2)
    done = analyze("efficiency", *options, "--names", "ours", "theirs", "--output_dir", out)
    assert done.returncode == 0, done.stderr
    assert "pass@2, % (tokens)" in done.stdout and "theirs" in done.stdout
    rows = results(out / "efficiency.json")["rows"]
    assert len(rows) == 2 * 2 * 2 * 2  # models, benchmarks, with and without, k
    found = {
        (row["with_greedy"], row["k"]): (row["accuracy"], row["tokens"])
        for row in rows
        if (row["model"], row["benchmark"]) == ("ours", "math500")
    }
    assert found == {
        (True, 1): (pytest.approx(2 / 3), 10),
        (True, 2): (pytest.approx(2 / 3), 20),
        (False, 1): (pytest.approx((1 / 3 + 0 + 1) / 3), 10),
        (False, 2): (pytest.approx((2 / 3 + 0 + 1) / 3), 20),
    }
    for name in ("efficiency.png", "efficiency_sampled.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")


def test_efficiency_of_samples_alone(folders, tmp_path):
    out = tmp_path / "out"
    options = ("--sampled", *folders["sampled"], "--benchmarks", "math500,gsm8k", "--max_k", 3)
    done = analyze("efficiency", *options, "--output_dir", out)
    assert done.returncode == 0, done.stderr
    rows = results(out / "efficiency.json")["rows"]
    assert list(dict.fromkeys(row["benchmark"] for row in rows)) == ["math500", "gsm8k"]
    assert {row["model"] for row in rows} == {"barl", "grpo"}
    assert not (out / "efficiency.png").exists()


def test_reflections_with_keywords_from_a_file(folders, tmp_path):
    keywords = tmp_path / "keywords.txt"
    keywords.write_text("so it\n\n  wait \n")
    out = tmp_path / "out"
    options = (*folders["sampled"], "--num_samples", 3, "--keywords", keywords)
    done = analyze("reflections", *options, "--output_dir", out)
    assert done.returncode == 0, done.stderr
    assert "Problems with a reflection" in done.stdout
    found = results(out / "reflections.json")
    assert found["settings"] == {"num_samples": 3, "keywords": ["so it", "wait"]}
    ours = [row for row in found["rows"] if (row["model"], row["benchmark"]) == ("barl", "gsm8k")]
    frequencies = [(row["difficulty"], row["num_problems"], row["frequency"]) for row in ours]
    assert frequencies == [(0, 1, 1.0), (1, 0, None), (2, 1, 1.0), (3, 1, 1.0)]
    assert (out / "reflections.png").read_bytes().startswith(b"\x89PNG")


def test_values_under_the_model_that_gave_the_responses(tmp_path, model_path):
    texts = ["One and one: 1 + 1 = 2, thus \\boxed{2}.", "It is \\boxed{11}."]
    by_problem = {
        0: [response(0, n, 1 - n, text=text) for n, text in enumerate(texts)],
        1: [response(1, 0, 0, text="Hm.", solution="\\frac{1")],
    }
    write_responses(tmp_path / "barl", by_problem, model=model_path)
    out = tmp_path / "out"
    options = ("--step_size", 8, "--consistency_beta", "inf", "--output_dir", out)
    done = analyze("values", tmp_path / "barl", *options)
    assert done.returncode == 0, done.stderr
    assert "1 correct" in done.stdout and "FutureWarning" not in done.stderr
    lines = (out / "barl" / "math500.jsonl").read_text().splitlines()
    first, second = map(json.loads, lines)
    assert (first["reward"], second["reward"]) == (1.0, 0.0)
    assert first["answers"] == ["2", "11"]
    steps = len(first["steps"])
    assert steps > 1 and len(first["posterior"]) == steps + 1
    assert len(first["bayesian_values"]) == len(first["posterior_weighted_values"]) == steps
    found = results(out / "values.json")
    assert found["settings"]["step"] == "8 tokens"
    assert found["settings"]["consistency_beta"] == float("inf")
    assert found["settings"]["problems_without_usable_truth"] == 1
    means = {
        row["value"]: row["mean"]
        for row in found["rows"]
        if (row["responses"], row["timestep"]) == ("correct", 0)
    }
    assert means == {name: pytest.approx(first[name][0]) for name in means} and len(means) == 2
    for name in ("bayesian_values.png", "posterior_weighted_values.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("efficiency",), "the following arguments are required: --sampled"),
        (("efficiencies",), "invalid choice: 'efficiencies'"),
        (("reflections", "{}/nowhere"), "must hold <benchmark>.jsonl, got none in"),
        (("reflections", "{}/barl"), r"num_samples must be in [1, 3], the fewest samples"),
        (
            ("reflections", "{}/barl", "--names", "a", "b"),
            "--names must be given once for each of the 1 folders, got 2",
        ),
        (("reflections", "{}/barl", "{}/barl"), "--names must differ, got barl, barl"),
        (
            ("efficiency", "--sampled", "{}/barl", "{}/grpo", "--greedy", "{}/barl"),
            "--greedy must be given once for each of the 2 folders, got 1",
        ),
    ],
)
def test_a_mistake_is_said(folders, tmp_path, options, message):
    done = analyze(*(option.format(tmp_path) for option in options))
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr
