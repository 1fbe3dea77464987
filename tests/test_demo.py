"""`barl demo` as users start it."""

import json
import subprocess
import sys

import pytest
from trl import TrlParser

from barl_trl import BARLConfig
from barl_trl.demo import RECIPE, DemoArguments, run


def demo_settings(*options):
    parser = TrlParser((DemoArguments, BARLConfig))
    return parser.parse_args_and_config(["--config", str(RECIPE), *options])


def test_demo_writes_table_summary_model_and_pictures(tmp_path):
    options = ["--max_steps", "2", "--output_dir", str(tmp_path / "demo")]
    command = [sys.executable, "-m", "barl_trl.cli", "demo", *options]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    assert "greedy accuracy" in shown
    assert "repeats per rollout" in shown
    summary = json.loads((tmp_path / "demo" / "summary.json").read_text())
    assert summary["settings"]["consistency_beta"] == 1.0
    assert summary["settings"]["step_delimiter"] == "."
    assert summary["seeds"] == {"training": 0, "held_out": 7}
    # The shipped model: right about half of the time, with room to explore better.
    assert 0.35 < summary["before"]["sampled_accuracy"] < 0.65
    assert 0.4 < summary["before"]["greedy_accuracy"] < 0.7
    for name in ("training.png", "beliefs.png", "model.safetensors", "trainer_state.json"):
        assert (tmp_path / "demo" / name).stat().st_size > 0


@pytest.mark.parametrize("method", ["grpo", "progress"])
def test_demo_trains_the_baselines(tmp_path, method):
    demo_args, args = demo_settings(
        "--max_steps", "1", "--output_dir", str(tmp_path), "--method", method
    )
    summary = run(demo_args.method, args)
    assert summary["method"] == method
    assert (tmp_path / "training.png").exists()


@pytest.mark.slow
def test_barl_learns_to_explore(tmp_path):
    _, args = demo_settings("--output_dir", str(tmp_path))
    summary = run("barl", args)
    before, after = summary["before"], summary["after"]
    assert after["greedy_accuracy"] > before["greedy_accuracy"] + 0.15
    assert after["sampled_accuracy"] > before["sampled_accuracy"] + 0.15
