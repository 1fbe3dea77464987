"""Figures are drawn from the files of a run, whatever the run logged."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from barl_trl.report.figures import drawing as figures
from barl_trl.report.figures.styles import BLUE, GREEN, VERMILION

LOGS = [
    {"step": step, "reward": step / 10, "completions/mean_length": 50.0, "barl/truth_mass": None}
    for step in range(1, 9)
]
RECORD = {
    "prompt": "Which of 3, 8 satisfies 3x + 7 = 16?\n",
    "answers": ["3", "8"],
    "steps": ["Try 8: 3*8 + 7 = 31, no.", "Try 3: 3*3 + 7 = 16, yes."],
    "posterior": [[0.5, 0.5], [0.7, 0.3], [0.99, 0.01]],
    "posterior_weighted_values": [1.2, -0.1],
    "reward": 1.0,
}


@pytest.mark.parametrize(("logs", "panels"), [(LOGS, 2), (LOGS[:1], 2)])
def test_training_curves_draw_what_was_logged(tmp_path, logs, panels):
    (tmp_path / "state.json").write_text(json.dumps({"log_history": logs}))
    figures.training_curves(tmp_path / "state.json", tmp_path / "curves.png")
    height, width, _ = plt.imread(tmp_path / "curves.png").shape
    assert round(width / height, 1) == round(panels * 3.6 / 3, 1)


def test_training_curves_of_a_run_without_metrics_are_refused(tmp_path):
    (tmp_path / "state.json").write_text(json.dumps({"log_history": [{"step": 1, "loss": 0.1}]}))
    with pytest.raises(ValueError, match=r"state.json must have at least one of .*reward"):
        figures.training_curves(tmp_path / "state.json", tmp_path / "curves.png")


def test_beliefs_of_no_rollouts_are_refused(tmp_path):
    (tmp_path / "beliefs.json").write_text("[]")
    with pytest.raises(ValueError, match=r"beliefs.json must hold at least one rollout"):
        figures.beliefs(tmp_path / "beliefs.json", tmp_path / "beliefs.png")


def test_beliefs_of_rollouts_of_different_lengths(tmp_path):
    short = RECORD | {
        "steps": [],
        "posterior": [[0.5, 0.5]],
        "posterior_weighted_values": [],
        "reward": 0.0,
    }
    (tmp_path / "beliefs.json").write_text(json.dumps([RECORD, short]))
    figures.beliefs(tmp_path / "beliefs.json", tmp_path / "beliefs.png")
    image = plt.imread(tmp_path / "beliefs.png")[..., :3]
    sure, up, down = (
        np.isclose(image, to_rgb(color), atol=0.02).all(axis=2).sum()
        for color in (GREEN, BLUE, VERMILION)
    )
    assert min(sure, up, down) > 100  # a belief of .99 in the truth, values of 1.2 and -0.1
    assert up > 4 * down  # bars of one scale
