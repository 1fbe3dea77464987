"""Curves of a training run: reward, completion length and beliefs over the optimizer steps."""

from pathlib import Path

import numpy as np

from ..json_files import read_json
from .styles import BLUE, plt, save, styled

_CURVES = {
    "reward": "outcome reward",
    "completions/mean_length": "completion length (tokens)",
    "barl/posterior_entropy": "posterior entropy (nats)",
    "barl/truth_mass": "posterior mass on the truth",
}
"""Logged metric -> title of its panel. A metric that a method does not log has no panel."""

_WINDOW = 5
"""Number of logs in the moving average that is drawn over the raw curve."""


@styled
def draw(trainer_state: str | Path, path: str | Path) -> None:
    """Draw reward, length and beliefs over the optimizer steps.

    The title of each panel gives the first and the last value of the moving average.

    Args:
        trainer_state: `trainer_state.json` of a run or a checkpoint.
        path: PNG to write.

    Raises:
        ValueError: None of the metrics was logged.
    """
    logs = read_json(trainer_state, log_history=list)["log_history"]
    points = {
        name: np.array([(log["step"], log[name]) for log in logs if log.get(name) is not None])
        for name in _CURVES
    }
    points = {name: xy for name, xy in points.items() if len(xy)}
    if not points:
        raise ValueError(
            f"{trainer_state} must have at least one of {list(_CURVES)} logged, got none."
        )
    size = 3.6 * len(points), 3
    figure, axes = plt.subplots(1, len(points), figsize=size, layout="constrained", squeeze=False)
    for axis, (name, xy) in zip(axes[0], points.items(), strict=True):
        axis.plot(*xy.T, color="0.8", linewidth=1, label="as logged")
        width = min(_WINDOW, len(xy))
        smooth = np.convolve(xy[:, 1], np.ones(width) / width, mode="valid")
        steps = xy[width - 1 :, 0]
        axis.plot(steps, smooth, color=BLUE, linewidth=2, label=f"mean of the last {width} logs")
        axis.plot(steps[[0, -1]], smooth[[0, -1]], "o", color=BLUE, markersize=4)
        ends = f"{smooth[0]:.3g} → {smooth[-1]:.3g}"
        axis.set(xlabel="optimizer step", title=f"{_CURVES[name]}: {ends}")
        axis.set_ylim(bottom=0, top=1.02 if name in ("reward", "barl/truth_mass") else None)
    axes[0][0].legend(loc="lower right")
    save(figure, path, dpi=130)
