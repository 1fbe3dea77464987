"""How good the gradient of each credit is, at each checkpoint."""

import json
from pathlib import Path

from .styles import finish, line_style, plt


def draw(results: str | Path, path: str | Path) -> None:
    """Draw each arm's quality beside its control's, and its bias, with standard errors.

    Args:
        results: JSON with `rows` of `model`, `arm`, `bias`, `quality` and, but for the Monte-Carlo
            arm, `beyond_control`: each a number and its standard error.
        path: PNG to write.
    """
    rows = json.loads(Path(results).read_text())["rows"]
    models = list(dict.fromkeys(row["model"] for row in rows))
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    figure, axes = plt.subplots(
        1, 2, figsize=(10, 1.6 + 0.28 * len(arms)), sharey=True, layout="constrained"
    )
    titles = {"quality": "cosine of one batch's gradient", "bias": "cosine of the mean gradient"}
    for axis, (value, title) in zip(axes, titles.items(), strict=True):
        for n, model in enumerate(models):
            places, numbers, errors = [], [], []
            for row in rows:
                if row["model"] == model and row[value][0] is not None:
                    places.append(arms.index(row["arm"]) + 0.8 * (n + 0.5) / len(models) - 0.4)
                    numbers.append(row[value][0])
                    errors.append(row[value][1])
            style = line_style(n) | {"linestyle": "none"}
            axis.errorbar(numbers, places, xerr=errors, label=model, **style)
        axis.set(title=f"{title} with the true one", xlim=(None, 1.05))
        axis.axvline(0, color="0.6", linewidth=0.8)
        axis.axvline(1, color="0.6", linewidth=0.8, linestyle=":")
        axis.grid(alpha=0.3)
    axes[0].set_yticks(range(len(arms)), arms)
    axes[0].invert_yaxis()
    finish(figure, path, names=len(models))
