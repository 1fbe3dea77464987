"""Training curves are drawn from the log of a run, whatever it logged."""

import pytest

from barl_trl.report.figures import training_figure

LOGS = [
    {"step": step, "reward": step / 10, "completions/mean_length": 50.0, "barl/truth_mass": None}
    for step in range(1, 9)
]


@pytest.mark.parametrize(
    ("logs", "steps", "ends"), [(LOGS, [5, 8], "0.3 → 0.6"), (LOGS[:1], [1, 1], "0.1 → 0.1")]
)
def test_what_was_logged_is_drawn_with_its_moving_average(drawn, logs, steps, ends):
    reward, length = drawn(training_figure.draw, {"log_history": logs}).axes
    assert reward.get_title(loc="left") == f"outcome reward: {ends}"
    assert length.get_title(loc="left") == "completion length (tokens): 50 → 50"
    raw, _, dots = reward.lines
    assert raw.get_ydata().tolist() == [log["reward"] for log in logs]
    assert dots.get_xdata().tolist() == steps


def test_a_run_without_metrics_is_refused(drawn):
    with pytest.raises(ValueError, match=r"results.json must have at least one of .*reward"):
        drawn(training_figure.draw, {"log_history": [{"step": 1, "loss": 0.1}]})
