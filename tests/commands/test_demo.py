"""`barl demo` as users start it."""

import json
import subprocess
import sys

import pytest

from barl_trl import cli
from barl_trl.graders import GRADERS


def barl_demo(folder, *options):
    """Runs the command; returns what it printed, and its summary."""
    command = [sys.executable, "-m", "barl_trl.cli", "demo", "--output_dir", str(folder), *options]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=2400).stdout
    return shown, json.loads((folder / "summary.json").read_text())


def test_demo_writes_table_summary_model_and_pictures(tmp_path):
    shown, summary = barl_demo(tmp_path, "--max_steps", "2")
    assert "greedy accuracy" in shown
    assert "repeats per rollout" in shown
    assert summary["settings"]["consistency_beta"] == 1.0
    assert summary["settings"]["step_delimiter"] == "."
    assert summary["grader"] == GRADERS["math_verify"].label
    assert summary["seeds"] == {"training": 0, "held_out": 7}
    # The shipped model: right about half of the time, with room to explore better.
    assert 0.35 < summary["before"]["sampled_accuracy"] < 0.65
    assert 0.4 < summary["before"]["greedy_accuracy"] < 0.7
    for name in ("training.png", "beliefs.png", "model.safetensors", "trainer_state.json"):
        assert (tmp_path / name).stat().st_size > 0


@pytest.mark.parametrize("method", ["grpo", "progress"])
def test_demo_trains_the_baselines(tmp_path, method):
    _, summary = barl_demo(tmp_path, "--max_steps", "1", "--method", method)
    assert summary["method"] == method
    if method == "progress":
        assert summary["settings"]["hypotheses"] == "truth"
    assert (tmp_path / "training.png").exists()


@pytest.mark.parametrize("option", [("--step_size", "64"), ("--resume_from_checkpoint", "true")])
def test_options_that_would_change_nothing_are_refused(tmp_path, option):
    with pytest.raises(ValueError, match=f"{option[0][2:]} must be left out"):
        cli.main(["demo", "--output_dir", str(tmp_path), *option])


@pytest.mark.slow
def test_barl_learns_to_explore(tmp_path):
    _, summary = barl_demo(tmp_path)
    before, after = summary["before"], summary["after"]
    assert after["greedy_accuracy"] > before["greedy_accuracy"] + 0.15
    assert after["sampled_accuracy"] > before["sampled_accuracy"] + 0.15
