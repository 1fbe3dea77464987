"""`python -m experiments.calibration`: whether beliefs are what the model goes on to answer."""

import pytest

from ...commands.analyzing import results
from ...evaluation.files import response, write_responses
from ..running import experiment


def test_beliefs_of_the_model_that_gave_the_responses(tmp_path, model_path):
    texts = ["One and one: 1 + 1 = 2, thus \\boxed{2}.", "It is \\boxed{11}."]
    by_problem = {
        n: [response(n, k, 1 - k, text=text) for k, text in enumerate(texts)] for n in (0, 1)
    }
    by_problem[2] = [response(2, 0, 0, text="Hm.", solution="\\frac{1")]
    write_responses(tmp_path / "barl", by_problem, model=model_path)
    out = tmp_path / "out"
    options = ("--step_size", 8, "--continuations", 2, "--max_tokens", 24, "--output_dir", out)
    done = experiment("calibration", tmp_path / "barl", *options, columns=80)
    assert done.returncode == 0, done.stderr
    found = results(out / "calibration.json")
    assert found["settings"]["problems"] == 3
    variants = list(dict.fromkeys(row["variant"] for row in found["rows"]))
    assert variants == [
        "default",
        *(f"elicitation: {name}" for name in ("paper", "short", "turn")),
        "likelihood: sum",
        "likelihood: token_mean",
        "temperature: 0.5",
        "temperature: 2",
    ]
    assert all(variant in done.stdout for variant in variants)  # on one line each
    counts = {row["quantity"]: row["num_points"] for row in found["rows"]}
    assert counts["plausibility"] == 2 * counts["truth_mass"] > 0
    assert all(sum(b["number"] for b in row["bins"]) == row["num_points"] for row in found["rows"])
    assert (out / "calibration.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("option", "message"),
    [(("--continuations", 1), "a whole number of at least 2"), (("--max_tokens", 0), "at least 1")],
)
def test_mistakes(tmp_path, option, message):
    done = experiment("calibration", tmp_path, *option)
    assert done.returncode == 2
    assert message in done.stderr


def test_responses_without_a_usable_truth(tmp_path, model_path):
    by_problem = {0: [response(0, 0, 0, solution="\\frac{1")]}
    write_responses(tmp_path / "barl", by_problem, model=model_path)
    options = ("--continuations", 2, "--max_tokens", 8, "--output_dir", tmp_path / "out")
    done = experiment("calibration", tmp_path / "barl", *options)
    assert done.returncode == 2
    message = "python -m experiments.calibration: solution must be a usable answer, got 1 problems"
    assert message in done.stderr
