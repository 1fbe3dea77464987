"""The paper's figure of the didactic example: accuracy along training, by arm."""

from collections import defaultdict
from pathlib import Path

import numpy as np

from ..json_files import read_json
from .styles import DASHES, plt, save

_PANELS = {"train_accuracy": "training prompts 0 and 1", "unseen_accuracy": "unseen prompt 2"}
_REFERENCES = {
    "uniform policy, a repeat": "uniform policy",
    "best Markovian policy, 3 hypotheses": "best Markovian policy",
}


def draw(results: str | Path, path: str | Path) -> None:
    """Draw mean and standard deviation of the accuracy over the seeds, by arm and iteration.

    Args:
        results: JSON with `records` (of `arm`, `seed`, `iteration` and the accuracies), `arms`
            by name, each with a `title`, and `references` by name.
        path: PNG to write.
    """
    data = read_json(results)
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True, layout="constrained")
    for axis, (accuracy, title) in zip(axes, _PANELS.items(), strict=True):
        for n, (arm, setting) in enumerate(data["arms"].items()):
            curves = defaultdict(list)
            for record in data["records"]:
                if record["arm"] == arm:
                    curves[record["iteration"]].append(record[accuracy])
            iterations = sorted(curves)
            means = np.array([np.mean(curves[i]) for i in iterations])
            deviations = np.array([np.std(curves[i]) for i in iterations])
            style = DASHES[n % len(DASHES)]
            axis.plot(iterations, means, color=f"C{n}", linestyle=style, label=setting["title"])
            low, high = (means - deviations).clip(0), (means + deviations).clip(max=1)
            axis.fill_between(iterations, low, high, color=f"C{n}", alpha=0.15, linewidth=0)
        for name, text in _REFERENCES.items():
            height = data["references"][name]
            axis.axhline(height, color="0.5", linewidth=0.8)
            axis.annotate(
                f"{text} {height:.2f}",
                (0.99, height),
                xycoords=("axes fraction", "data"),
                ha="right",
                va="bottom",
                fontsize=8,
                color="0.35",
            )
        axis.set(
            title=title,
            xlabel=f"iteration ({data['settings']['batch_size']} episodes each)",
            ylim=(-0.02, 1.02),
        )
        axis.grid(alpha=0.3)
    seeds = len({record["seed"] for record in data["records"]})
    axes[0].set_ylabel(f"accuracy (mean ± std, {seeds} seed{'s' if seeds > 1 else ''})")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    save(figure, path, dpi=130)
