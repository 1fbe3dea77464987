"""Training curves, and the belief over the hypotheses along a chain of thought."""

import json
from pathlib import Path

import numpy as np

from .styles import plain, plt, save

CURVES = {
    "reward": "outcome reward",
    "completions/mean_length": "completion length (tokens)",
    "barl/posterior_entropy": "posterior entropy (nats)",
    "barl/truth_mass": "posterior mass on the truth",
}
"""Logged metric -> title. A metric that a method does not log is left out."""

MAX_LABEL_CHARS = 34


def training_curves(trainer_state: str | Path, path: str | Path, *, window: int = 5) -> None:
    """Draw the metrics of `CURVES` over the optimizer steps.

    Args:
        trainer_state: `trainer_state.json` of a run or a checkpoint.
        path: PNG to write.
        window: Points of the moving average that is drawn over the raw curve.

    Raises:
        ValueError: None of the metrics was logged.
    """
    logs = json.loads(Path(trainer_state).read_text())["log_history"]
    points = {
        name: np.array([(log["step"], log[name]) for log in logs if log.get(name) is not None])
        for name in CURVES
    }
    points = {name: xy for name, xy in points.items() if len(xy)}
    if not points:
        raise ValueError(
            f"{trainer_state} must have at least one of {list(CURVES)} logged, got none."
        )
    figure, axes = plt.subplots(
        1, len(points), figsize=(3.6 * len(points), 3), layout="constrained", squeeze=False
    )
    for axis, (name, xy) in zip(axes[0], points.items(), strict=True):
        axis.plot(*xy.T, color="0.75", linewidth=1)
        width = min(window, len(xy))
        smooth = np.convolve(xy[:, 1], np.ones(width) / width, mode="valid")
        axis.plot(xy[width - 1 :, 0], smooth, color="C0", linewidth=2)
        axis.set(xlabel="optimizer step", title=CURVES[name])
        axis.grid(alpha=0.3)
    save(figure, path, dpi=130)


def beliefs(records: str | Path, path: str | Path) -> None:
    """Draw the posterior over the hypotheses at every state, and each step's value.

    Args:
        records: JSON list with, per rollout: `prompt`, `answers` (H, the truth first), `steps` (T
            texts), `posterior` (T + 1 rows of H), `posterior_weighted_values` (T), `reward`.
        path: PNG to write.
    """
    rollouts = json.loads(Path(records).read_text())
    if not rollouts:
        raise ValueError(f"{records} must hold at least one rollout, got none.")
    heights = [ratio for r in rollouts for ratio in (1.2, 0.35 * len(r["answers"]))]
    widest = max(len(r["posterior"]) for r in rollouts)
    figure, axes = plt.subplots(
        2 * len(rollouts),
        1,
        figsize=(3 + 1.15 * widest, 1.9 * len(rollouts) + sum(heights)),
        height_ratios=heights,
        layout="constrained",
    )
    for record, value_axis, belief_axis in zip(rollouts, axes[::2], axes[1::2], strict=True):
        _draw_values(value_axis, record, widest)
        _draw_belief(belief_axis, record, widest)
    save(figure, path, dpi=110)


def _draw_values(axis, record, widest):
    values = record["posterior_weighted_values"]
    axis.bar(np.arange(len(values)) + 0.5, values, width=0.9, color="0.8", edgecolor="0.3")
    for t, value in enumerate(values):
        side = "bottom" if value >= 0 else "top"
        axis.text(t + 0.5, value, f"{value:+.2f}", ha="center", va=side, fontsize=8)
    axis.axhline(0, color="0.3", linewidth=0.8)
    axis.set(xlim=(-0.5, widest - 0.5), xticks=[], ylabel="value V(t)")
    axis.margins(y=0.35)
    axis.spines[["top", "right"]].set_visible(False)
    outcome = f"outcome reward {record['reward']:g}"
    axis.set_title(plain(f"{record['prompt'].strip()}   ({outcome})"), loc="left", fontsize=10)


def _draw_belief(axis, record, widest):
    posterior = np.array(record["posterior"]).T
    axis.imshow(posterior, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    for (i, t), mass in np.ndenumerate(posterior):
        color = "white" if mass > 0.6 else "black"
        axis.text(t, i, f"{mass:.2f}", ha="center", va="center", fontsize=8, color=color)
    names = [
        f"{answer} (truth)" if i == 0 else answer for i, answer in enumerate(record["answers"])
    ]
    axis.set_yticks(range(len(names)), [*map(plain, names)], fontsize=9)
    states = ["prompt", *(_shortened(step) for step in record["steps"])]
    axis.set_xticks(range(len(states)), [*map(plain, states)], rotation=18, ha="right", fontsize=7)
    axis.set(xlim=(-0.5, widest - 0.5), ylabel="belief")


def _shortened(text):
    text = " ".join(text.split())
    return text if len(text) <= MAX_LABEL_CHARS else text[: MAX_LABEL_CHARS - 1] + "…"
