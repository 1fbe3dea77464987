"""Training curves, and the belief over the hypotheses along a chain of thought."""

import textwrap
from pathlib import Path

import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from ..json_files import read_json
from .styles import BLUE, GREEN, VERMILION, headline, plain, plt, save, styled

_CURVES = {
    "reward": "outcome reward",
    "completions/mean_length": "completion length (tokens)",
    "barl/posterior_entropy": "posterior entropy (nats)",
    "barl/truth_mass": "posterior mass on the truth",
}
"""Logged metric -> title of its panel. A metric that a method does not log has no panel."""

_LETTERS = 18
"""Number of characters in a line of text under a column of beliefs."""
_LINES = 4
"""Most lines of text under a column of beliefs."""


@styled
def training_curves(trainer_state: str | Path, path: str | Path, *, window: int = 5) -> None:
    """Draw reward, length and beliefs over the optimizer steps.

    The title of each panel gives the first and the last value of the moving average.

    Args:
        trainer_state: `trainer_state.json` of a run or a checkpoint.
        path: PNG to write.
        window: Number of logs in the moving average that is drawn over the raw curve.

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
        width = min(window, len(xy))
        smooth = np.convolve(xy[:, 1], np.ones(width) / width, mode="valid")
        steps = xy[width - 1 :, 0]
        axis.plot(steps, smooth, color=BLUE, linewidth=2, label=f"mean of the last {width} logs")
        axis.plot(steps[[0, -1]], smooth[[0, -1]], "o", color=BLUE, markersize=4)
        ends = f"{smooth[0]:.3g} → {smooth[-1]:.3g}"
        axis.set(xlabel="optimizer step", title=f"{_CURVES[name]}: {ends}")
        axis.set_ylim(bottom=0, top=1.02 if name in ("reward", "barl/truth_mass") else None)
    axes[0][0].legend(loc="lower right")
    save(figure, path, dpi=130)


@styled
def beliefs(records: str | Path, path: str | Path) -> None:
    """Draw each step's value, the posterior over the hypotheses after the step, and its text.

    Args:
        records: JSON list with, per rollout: `prompt`, `answers` (H, the truth first), `steps` (T
            texts), `posterior` (T + 1 rows of H), `posterior_weighted_values` (T), `reward`.
        path: PNG to write.
    """
    rollouts = read_json(records)
    if not rollouts:
        raise ValueError(f"{records} must hold at least one rollout, got none.")
    widest = max(len(r["posterior"]) for r in rollouts)
    heights = [ratio for r in rollouts for ratio in (1.2, 0.3 * len(r["answers"]), 0.75)]
    figure, axes = plt.subplots(
        len(heights),
        1,
        figsize=(1.5 + 1.2 * widest, 0.6 + 1.15 * sum(heights)),
        height_ratios=heights,
        layout="constrained",
        sharex=True,
    )
    values = [value for r in rollouts for value in r["posterior_weighted_values"]]
    low, high = min([0.0, *values]), max([0.0, *values])
    margin = 0.2 * (high - low or 1)  # where the numbers stand
    for n, record in enumerate(rollouts):
        value_axis, belief_axis, text_axis = axes[3 * n : 3 * n + 3]
        _draw_values(value_axis, record)
        value_axis.set(ylim=(low - margin, high + margin), xlim=(-0.5, widest - 0.5))
        _draw_belief(belief_axis, record)
        _write_steps(text_axis, record)
    headline(
        figure,
        "What each step is worth (its value V), and what the model believes after it.\n"
        "Values above 0 are blue, below 0 red; the truth's row is green.",
    )
    save(figure, path, dpi=110)


def _draw_values(axis, record):
    values = record["posterior_weighted_values"]
    places = np.arange(len(values)) + 1
    axis.bar(places, values, width=0.8, color=[BLUE if v >= 0 else VERMILION for v in values])
    for place, value in zip(places, values, strict=True):
        side = "bottom" if value >= 0 else "top"
        axis.text(place, value, f"{value:+.2f}", ha="center", va=side, fontsize=8)
    axis.axhline(0, color="0.4", linewidth=0.8)
    axis.set(ylabel="value V")
    axis.tick_params(bottom=False, labelbottom=False)
    axis.spines["bottom"].set_visible(False)
    axis.grid(axis="x", visible=False)
    reward = record["reward"]
    outcome = {1: "right", 0: "wrong"}.get(reward, f"outcome reward {reward:g}")
    axis.set_title(plain(f"{record['prompt'].strip()}  –  {outcome}"), fontweight="bold")


def _draw_belief(axis, record):
    posterior = np.array(record["posterior"]).T
    for i, (row, color) in enumerate(
        zip(posterior, [GREEN, *["0.25"] * (len(posterior) - 1)], strict=True)
    ):
        shades = LinearSegmentedColormap.from_list("belief", ["white", color])
        extent = (-0.5, len(row) - 0.5, i + 0.5, i - 0.5)
        axis.imshow(row[None], cmap=shades, vmin=0, vmax=1, aspect="auto", extent=extent)
        for t, mass in enumerate(row):
            ink = "white" if mass > 0.6 else "black"
            axis.text(t, i, f"{mass:.2f}", ha="center", va="center", fontsize=8, color=ink)
    names = [
        f"{answer} (truth)" if i == 0 else answer for i, answer in enumerate(record["answers"])
    ]
    axis.set(ylim=(len(names) - 0.5, -0.5), ylabel="belief")
    axis.set_yticks(range(len(names)), [*map(plain, names)], fontsize=9)
    axis.tick_params(bottom=False, labelbottom=False, left=False)
    axis.spines[:].set_visible(False)
    axis.grid(visible=False)


def _write_steps(axis, record):
    axis.axis("off")
    for place, text in enumerate(["prompt", *record["steps"]]):
        lines = textwrap.wrap(" ".join(text.split()), _LETTERS, max_lines=_LINES, placeholder=" …")
        axis.text(
            place,
            1,
            plain("\n".join(lines)),
            ha="center",
            va="top",
            fontsize=8,
            color="0.25",
            transform=axis.get_xaxis_transform(),
        )
