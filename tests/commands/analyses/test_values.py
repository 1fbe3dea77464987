"""`barl analyze values`: what steps are worth under a checkpoint's belief."""

import json
from argparse import ArgumentParser
from pathlib import Path

import numpy as np
import pytest

from barl_trl.commands.analyze.values import SCORING_FIELDS, add_options
from barl_trl.report.rollout_records import FOLDER, file_name, read_metadata, read_records
from barl_trl.trainer.config import own_fields

from ...evaluation.files import problems, response, write_responses
from ..analyzing import analyze, results


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
    [*records] = read_records(out / "barl" / "math500" / FOLDER)
    assert [record["group"] for record in records] == [0, 0, 1]
    assert [record["rollout"] for record in records] == [0, 1, 2]
    np.testing.assert_allclose(records[0]["posterior"], first["posterior"], atol=1e-6)
    assert records[2]["posterior"] is None and records[2]["tokens"] == ["H", "m", "."]
    how = read_metadata(out / "barl" / "math500" / FOLDER / file_name(0))
    assert how["model"] == Path(model_path).name
    assert (how["settings"]["step_size"], how["settings"]["consistency_beta"]) == (8, float("inf"))
    for name in ("bayesian_values.png", "posterior_weighted_values.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")


def test_statements_are_hypotheses_where_they_are_asked_for(tmp_path, model_path):
    texts = ["The answer is 2.", "Hence it is **11**."]
    by_problem = {0: [response(0, n, 1 - n, text=text) for n, text in enumerate(texts)]}
    write_responses(tmp_path / "barl", by_problem, model=model_path)
    options = ("--extraction", "stated", "--output_dir", tmp_path / "out")
    done = analyze("values", tmp_path / "barl", *options)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "out" / "barl" / "math500.jsonl").read_text().splitlines()
    assert [json.loads(line)["answers"] for line in lines] == [["2", "11"]] * 2
    label = results(tmp_path / "out" / "values.json")["settings"]["grader"]
    assert label["extraction"] == "stated"


def test_responses_of_an_evaluation_are_not_replaced(tmp_path):
    for name in ("read", "kept"):
        write_responses(tmp_path / name, problems([[1, 0]]), model="model")
    done = analyze("values", tmp_path / "read", "--names", "kept", "--output_dir", tmp_path)
    assert done.returncode == 2
    assert "output_dir must not have responses of barl evaluate in kept" in done.stderr


def test_the_checkpoint_must_be_known(tmp_path):
    (write_responses(tmp_path / "barl", problems([[1]])) / "results.json").unlink()
    done = analyze("values", tmp_path / "barl")
    assert done.returncode == 2
    assert "--model must be given without" in done.stderr and "Traceback" not in done.stderr


def test_without_a_usable_true_answer_there_is_nothing_to_show(tmp_path, model_path):
    folder = write_responses(tmp_path / "barl", problems([[1]], solution="{"), model=model_path)
    done = analyze("values", folder, "--output_dir", tmp_path / "out")
    assert done.returncode == 2
    assert "solution must be a usable answer, got 1 problems with none." in done.stderr


def test_its_options_have_the_defaults_of_training():
    parser = ArgumentParser()
    add_options(parser)
    taken = parser.parse_args(["folder"])
    trained = {option.name: option.default for option in own_fields()}
    assert {n: getattr(taken, n) for n in SCORING_FIELDS} == {n: trained[n] for n in SCORING_FIELDS}
