"""`python -m experiments.credit gradients`: methods judged on a checkpoint's own rollouts."""

import json
import math

import pytest
import torch

from barl_trl.synthetic.search import TINY_MODEL_DIR, search_rows
from experiments.credit.arms import ARMS

from ....commands.analyzing import results
from ...running import experiment

NAN = math.nan


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "problems.jsonl"
    rows = search_rows(3, seed=0, num_candidates=3)
    lines = [{"problem": row["prompt"].strip(), "answer": row["solution"]} for row in rows]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def judged(*models, data, out, columns=100, **settings):
    options = {
        "data": data,
        "batches": 3,
        "prompts": 2,
        "num_generations": 2,
        "max_completion_length": 24,
        "step_delimiter": ".",
        "continuations": 0,
        "output_dir": out,
    }
    pairs = (options | settings).items()
    given = [text for name, value in pairs for text in (f"--{name}", *as_texts(value))]
    return experiment("credit", "gradients", *models, *given, columns=columns)


def as_texts(value):
    return value if isinstance(value, list) else [value]


def refused(done, message):
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.startswith("python -m experiments.credit: ")
    assert done.stderr.count("\n") == 1


def test_all_methods_are_judged_by_default(data, tmp_path):
    out = tmp_path / "out"
    settings = {"num_generations": 4, "continuations": 1, "columns": 80}
    done = judged(TINY_MODEL_DIR, data=data, out=out, **settings)
    assert done.returncode == 0, done.stderr
    found = results(out / "credit.json")
    assert [row["arm"] for row in found["rows"]] == [*ARMS, "monte carlo"]
    assert {row["model"] for row in found["rows"]} == {"tiny-search"}
    assert found["settings"]["data"] == str(data)
    assert found["settings"]["num_generations"] == "4"
    assert (out / "credit.png").read_bytes().startswith(b"\x89PNG")
    batches = [out / "tiny-search" / f"batch-{n}.pt" for n in range(3)]
    assert {*batches[0].parent.iterdir()} == {*batches, out / "tiny-search" / "judgement.json"}
    assert any(torch.load(path)["reward"] for path in batches)  # it understood the problems
    check_tables(done.stdout)
    assert "Map" not in done.stderr
    assert "Loading" not in done.stderr


def check_tables(printed):
    """Two of them, which fit into 80 columns; names alone are wrapped, and numbers never."""
    lines = printed.splitlines()[1:-1]  # between the progress and the files
    assert max(map(len, lines)) <= 80
    heads = [line.replace("┃", " ").split() for line in lines if line.startswith("┃")]
    assert heads == [
        ["method", "bias", "quality", "vs", "GRPO", "control", "corr."],
        ["method", "answers", "tokens", "entropy"],
    ]
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]
    for width in (6, 4):
        table = [row for row in cells if len(row) == width]
        assert " ".join(row[0] for row in table) == " ".join([*ARMS, "monte carlo"])
        assert all(row[1] for row in table if row[0] in ARMS)
        for cell in (cell for row in table for cell in row[1:]):
            assert cell in ("", "noise") or cell[-1].isdigit() or cell.endswith("±?")


def test_given_methods_are_compared_with_grpo_at_each_model(data, tmp_path):
    out = tmp_path / "out"
    methods = ["progress", "gae", "barl, sum", "barl_trl.credit.barl:progress"]
    settings = {"methods": methods, "names": ["before", "behind"], "seed": 3}
    models = [TINY_MODEL_DIR, TINY_MODEL_DIR]
    done = judged(*models, data=data, out=out, **settings)
    assert done.returncode == 0, done.stderr
    rows = results(out / "credit.json")["rows"]
    assert [(row["model"], row["arm"]) for row in rows] == [
        (model, arm) for model in ("before", "behind") for arm in ["grpo", *methods]
    ]
    by_path, progress = ([r for r in rows if r["arm"] == m] for m in (methods[3], methods[0]))
    assert [r["quality"] for r in by_path] == [r["quality"] for r in progress]
    assert all(row["correlation"] is None for row in rows)
    before, behind = (out / name / "batch-2.pt" for name in ("before", "behind"))
    assert "Gradients at behind" in done.stdout

    # the same command goes on where it was stopped, and another one is refused
    behind.unlink()
    kept = before.stat().st_mtime_ns
    again = judged(*models, data=data, out=out, **settings)
    assert again.stdout == done.stdout
    assert repr(results(out / "credit.json")["rows"]) == repr(rows)
    assert before.stat().st_mtime_ns == kept
    other = data.with_name("others.jsonl")
    other.write_text(data.read_text())
    message = f"output_dir must be empty or of the same settings, got {out / 'before'}"
    assert message in judged(*models, data=other, out=out, **settings).stderr


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"methods": ["barl", "belief critic"]}, "did you mean 'belief_critic'?"),
        (
            {"batches": 2},
            "--batches must be at least 3, got 2: errors come from leaving one out.",
        ),
        ({"num_generations": 1}, "--num_generations must be at least 2, got 1: rollouts of a"),
        ({"parameters": "("}, "--parameters must be a regular expression, got '(': missing )"),
    ],
)
def test_a_mistake_is_said_before_anything_is_loaded(data, tmp_path, settings, message):
    out = tmp_path / "out"
    refused(judged(tmp_path / "no_model", data=data, out=out, **settings), message)
    assert not out.exists()
