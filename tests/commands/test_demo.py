"""`barl demo` as users start it, and the mistakes it refuses."""

import json

import pytest

from barl_trl import cli
from barl_trl.commands.demo import _accuracy
from barl_trl.commands.demo import run as demo_run


@pytest.mark.parametrize(
    "option",
    [
        ("--step_size", "64"),
        ("--extraction", "stated"),
        ("--resume_from_checkpoint", "true"),
        ("--credit", "progress"),
        ("--solution_column", "answer"),
    ],
)
def test_options_that_would_change_nothing_are_refused(tmp_path, option):
    with pytest.raises(SystemExit, match=f"barl demo: {option[0][2:]} must be left out"):
        cli.main(["demo", "--output_dir", str(tmp_path), *option])


def test_epochs_are_refused(tmp_path):
    with pytest.raises(SystemExit, match="max_steps must be at least 1, got -1: the problems"):
        cli.main(["demo", "--output_dir", str(tmp_path), "--max_steps", "-1"])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["grpo", "progress"])
def test_the_baselines_are_trained_and_the_table_is_shown(tmp_path, capsys, monkeypatch, method):
    monkeypatch.setattr(demo_run, "NUM_GREEDY", 20)
    few = ["--max_steps", "1", "--per_device_train_batch_size", "16"]
    cli.main(["demo", "--output_dir", str(tmp_path), "--method", method, *few])
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
    """Half of the demo's steps, on half of its held-out problems."""
    monkeypatch.setattr(demo_run, "NUM_GREEDY", 200)
    cli.main(["demo", "--output_dir", str(tmp_path), "--max_steps", "40"])
    assert "200 held-out problems, barl" in capsys.readouterr().out
    summary = json.loads((tmp_path / "summary.json").read_text())
    before, after = summary["before"], summary["after"]
    assert after["greedy_accuracy"] > before["greedy_accuracy"] + 0.05
    assert after["sampled_accuracy"] > before["sampled_accuracy"] + 0.15
