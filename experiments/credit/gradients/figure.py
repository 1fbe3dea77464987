"""The figure of gradients: bias and quality of each credit at each checkpoint."""

import math
from pathlib import Path
from typing import Any

from barl_trl.report.figures.styles import finish, line_style, plain, plt, styled
from barl_trl.report.json_files import read_json

TITLES = {"quality": "quality: gradient of one batch", "bias": "bias: mean of all batches"}
LIMIT = 1.2
"""Cosines beyond it are noise, and stand at the edge."""


@styled
def draw(results: str | Path, path: str | Path) -> None:
    """Draw each arm's quality beside its control's, and its bias, with standard errors.

    Args:
        results: JSON with `rows` of `model`, `arm`, `bias`, `quality` and, but for the Monte-Carlo
            arm, `beyond_control`: each a number and its standard error. What has no error, for
            noise hides it, is not drawn.
        path: PNG to write.
    """
    rows = read_json(results, rows=list)["rows"]
    models = list(dict.fromkeys(row["model"] for row in rows))
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    height = 1.8 + 0.12 * len(arms) * (1 + len(models))
    figure, axes = plt.subplots(1, 2, figsize=(9, height), sharey=True, layout="constrained")
    for axis, (value, title) in zip(axes, TITLES.items(), strict=True):
        drawn = [0.0, 1.0]
        for n, model in enumerate(models):
            of_model = [row for row in rows if row["model"] == model]
            offset = 0.8 * ((n + 0.5) / len(models) - 0.5)
            places = [arms.index(row["arm"]) + offset for row in of_model]
            drawn += _draw_model(axis, of_model, places, value, line_style(n))
        axis.set(title=title, xlabel="cosine with the true gradient")
        axis.set_xlim(min(drawn) - 0.06, max(drawn) + 0.06)
        axis.axvline(0, color="0.6", linewidth=0.8)
        axis.axvline(1, color="0.6", linewidth=0.8, linestyle=":")
        axis.grid(axis="y", visible=False)
        for border in range(1, len(arms)):
            axis.axhline(border - 0.5, color="0.85", linewidth=0.6)
    axes[0].set_yticks(range(len(arms)), arms)
    axes[0].set_ylim(len(arms) - 0.5, -0.5)
    finish(figure, path)


def _draw_model(
    axis, rows: list[dict[str, Any]], places: list[float], value: str, style: dict[str, Any]
) -> list[float]:
    """Draw a value of the arms at a model, and their controls'; return the numbers drawn."""
    pairs = list(zip(rows, places, strict=True))
    points = [(*row[value], place) for row, place in pairs if not math.isnan(sum(row[value]))]
    numbers = [max(-LIMIT, min(number, LIMIT)) for number, *_ in points]
    axis.errorbar(
        numbers,
        [place for *_, place in points],
        xerr=[error for _, error, _ in points],
        label=plain(rows[0]["model"]),
        **style | {"linestyle": "none"},
    )
    controls = [
        (row["quality"][0] - row["beyond_control"][0], place)
        for row, place in pairs
        if value == "quality" and "beyond_control" in row
    ]
    if controls:
        label = "plain RL with steps of these sizes"
        axis.plot(*zip(*controls, strict=True), "|", color="0.2", markersize=9, label=label)
    return numbers + [number for number, _ in controls if not math.isnan(number)]
