"""What agents learn to find out: accuracy and questions over training."""

from pathlib import Path

from ..json_files import read_json
from .styles import finish, line_style, panels, plain, styled

_LABELS = {"accuracy": "secrets found (%)", "questions": "questions in a game"}
"""Measure -> label of its axis."""


@styled
def draw(curves: str | Path, path: str | Path) -> None:
    """Draw a panel for each measure, with a line for each arm.

    Args:
        curves: JSON file with `references` (name -> accuracy) and `arms` (name -> list of `step`,
            `accuracy` and `questions`).
        path: PNG to write.
    """
    content = read_json(curves)
    figure, axes = panels(len(_LABELS))
    for axis, (name, label) in zip(axes[0], _LABELS.items(), strict=True):
        scale = 100 if name == "accuracy" else 1
        for n, (arm, points) in enumerate(content["arms"].items()):
            steps = [point["step"] for point in points]
            heights = [scale * point[name] for point in points]
            axis.errorbar(steps, heights, **line_style(n), label=plain(arm))
        if name == "accuracy":
            for reference, accuracy in content["references"].items():
                axis.axhline(100 * accuracy, color="0.6", linewidth=0.8, linestyle=":")
                axis.annotate(reference, (0, 100 * accuracy), fontsize=7, color="0.4", va="bottom")
        axis.set(xlabel="optimizer step", ylabel=label)
        axis.set_ylim(bottom=0)
    finish(figure, path)
