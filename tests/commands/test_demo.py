"""`barl demo` as users start it, and the mistakes it refuses."""

import json

import pytest

from barl_trl import cli
from barl_trl.commands.demo import _accuracy, inquiry, search

OF_ALL = [
    ("--step_size", "64"),
    ("--extraction", "stated"),
    ("--resume_from_checkpoint", "true"),
    ("--solution_column", "answer"),
]


@pytest.mark.parametrize(
    ("task", "option"),
    [(task, option) for task in ("inquiry", "search") for option in OF_ALL]
    + [("inquiry", ("--method", "grpo")), ("search", ("--credit", "progress"))],
)
def test_options_that_would_change_nothing_are_refused(tmp_path, task, option):
    with pytest.raises(SystemExit, match=f"barl demo: {option[0][2:]} must be left out"):
        cli.main(["demo", "--task", task, "--output_dir", str(tmp_path), *option])


def test_an_unknown_task_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"barl demo: task must be one of \['inquiry', 'search'\]"):
        cli.main(["demo", "--task", "chess", "--output_dir", str(tmp_path)])


def test_grpo_beside_grpo_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="barl demo: credit must be another than 'grpo'"):
        cli.main(["demo", "--output_dir", str(tmp_path), "--credit", "grpo"])


def test_the_short_help_has_the_recipes_defaults(capsys):
    with pytest.raises(SystemExit):
        cli.main(["demo", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "(default: bayes)" in shown and "(default: barl)" in shown  # --credit, --method


def test_the_help_of_a_broken_recipe_says_what_is_wrong(tmp_path):
    (tmp_path / "broken.yaml").write_text("a: [1")
    with pytest.raises(SystemExit, match="this is no YAML"):
        cli.main(["demo", "--config", str(tmp_path / "broken.yaml"), "--help"])


def test_epochs_are_refused(tmp_path):
    with pytest.raises(SystemExit, match="max_steps must be at least 1, got -1: the problems"):
        cli.main(["demo", "--output_dir", str(tmp_path), "--max_steps", "-1"])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["grpo", "progress"])
def test_the_baselines_are_trained_and_the_table_is_shown(tmp_path, capsys, monkeypatch, method):
    monkeypatch.setattr(search, "NUM_GREEDY", 20)
    few = ["--max_steps", "1", "--per_device_train_batch_size", "16"]
    cli.main(["demo", "--task=search", "--output_dir", str(tmp_path), "--method", method, *few])
    shown = capsys.readouterr().out
    assert f"20 held-out problems, {method}" in shown
    assert shown.index("sampled accuracy") < shown.index("greedy accuracy")
    assert "over problems" in shown and "repeats per rollout" in shown
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["method"] == method
    if method == "progress":
        assert summary["settings"]["credit"] == "progress"
    assert (tmp_path / "training.png").exists()


def test_the_interval_is_over_problems():
    found = {"sampled_accuracy": 0.5, "sampled_standard_error": 0.1, "problems": 401}
    # Student's quantile: 1.966 at 400 degrees of freedom
    assert _accuracy(found, "sampled") == "50.0 % [30.3, 69.7]"


@pytest.mark.slow
def test_barl_learns_to_explore(tmp_path, capsys, monkeypatch):
    """A quarter of the demo's steps, on half of its held-out problems."""
    monkeypatch.setattr(search, "NUM_GREEDY", 200)
    cli.main(["demo", "--task", "search", "--output_dir", str(tmp_path), "--max_steps", "20"])
    assert "200 held-out problems, barl" in capsys.readouterr().out
    summary = json.loads((tmp_path / "summary.json").read_text())
    before, after = summary["before"], summary["after"]
    assert after["greedy_accuracy"] > before["greedy_accuracy"] + 0.05
    assert after["sampled_accuracy"] > before["sampled_accuracy"] + 0.15


def test_both_arms_of_the_inquiry_are_trained_and_shown(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(inquiry, "NUM_GAMES", 32)
    few = ["--max_steps", "2", "--eval_steps", "1", "--per_device_train_batch_size", "16"]
    cli.main(["demo", "--output_dir", str(tmp_path), *few, "--per_device_eval_batch_size", "16"])
    shown = capsys.readouterr().out
    assert "secrets found" in shown and "Bayes-optimal 100 %" in shown
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert {*summary["after"]} == {"grpo", "bayes"}
    curves = json.loads((tmp_path / "curves.json").read_text())["arms"]
    # the start is measured on all games, as the ends are
    assert summary["games"] == 32 and summary["before"]["step"] == 0
    # both begin with the same model on the same games
    assert [curve[0]["tokens"] for curve in curves.values()] == [curves["grpo"][0]["tokens"]] * 2
    assert [point["step"] for point in curves["bayes"]] == [0, 1, 2]
    assert (tmp_path / "training.png").exists() and (tmp_path / "inspect" / "index.html").exists()
    for name in ("grpo", "bayes"):
        assert (tmp_path / name / "model.safetensors").exists()
