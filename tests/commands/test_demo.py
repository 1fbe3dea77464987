"""`barl demo` as users start it, and the mistakes it refuses."""

import json
import subprocess
import sys

import pytest

from barl_trl import cli
from barl_trl.commands import demo_run


@pytest.mark.parametrize("option", [("--step_size", "64"), ("--resume_from_checkpoint", "true")])
def test_options_that_would_change_nothing_are_refused(tmp_path, option):
    with pytest.raises(ValueError, match=f"{option[0][2:]} must be left out"):
        cli.main(["demo", "--output_dir", str(tmp_path), *option])


def test_epochs_are_refused(tmp_path):
    with pytest.raises(ValueError, match="max_steps must be at least 1, got -1: the problems have"):
        cli.main(["demo", "--output_dir", str(tmp_path), "--max_steps", "-1"])


@pytest.mark.parametrize("method", ["grpo", "progress"])
def test_the_baselines_are_trained_and_the_table_is_shown(tmp_path, capsys, monkeypatch, method):
    monkeypatch.setattr(demo_run, "NUM_GREEDY", 20)
    few = ["--max_steps", "1", "--per_device_train_batch_size", "16"]
    cli.main(["demo", "--output_dir", str(tmp_path), "--method", method, *few])
    shown = capsys.readouterr().out
    assert f"20 held-out problems, {method}" in shown
    assert "greedy accuracy" in shown and "repeats per rollout" in shown
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["method"] == method
    if method == "progress":
        assert summary["settings"]["hypotheses"] == "truth"
    assert (tmp_path / "training.png").exists()


@pytest.mark.slow
def test_barl_learns_to_explore(tmp_path):
    command = [sys.executable, "-m", "barl_trl.cli", "demo", "--output_dir", str(tmp_path)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=2400).stdout
    assert "400 held-out problems, barl" in shown
    summary = json.loads((tmp_path / "summary.json").read_text())
    before, after = summary["before"], summary["after"]
    assert after["greedy_accuracy"] > before["greedy_accuracy"] + 0.15
    assert after["sampled_accuracy"] > before["sampled_accuracy"] + 0.15
