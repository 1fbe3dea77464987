"""The paper's figure on reflections: how often they occur, by the difficulty of the problem."""

import json
from pathlib import Path

from matplotlib.lines import Line2D

from .styles import DASHES, error_line, finish, line_style, panels, plain

BENCHMARK_DASHES = ("--", "-", *DASHES[2:])
"""The paper draws its first benchmark (GSM8K) dashed and its second (MATH) solid."""


def draw(results: str | Path, path: str | Path) -> None:
    """Draw all models and benchmarks into one panel: markers for models, dashes for benchmarks.

    Args:
        results: JSON with `rows` of `benchmark`, `model`, `difficulty`, `frequency`,
            `standard_error`, and `settings` with `num_samples`.
        path: PNG to write.

    Raises:
        ValueError: There are more benchmarks than ways to dash a line.
    """
    data = json.loads(Path(results).read_text())
    rows = data["rows"]
    benchmarks = dict.fromkeys(row["benchmark"] for row in rows)
    if len(benchmarks) > len(BENCHMARK_DASHES):
        raise ValueError(
            f"benchmarks must be at most {len(BENCHMARK_DASHES)} in one figure, got "
            f"{', '.join(benchmarks)}: choose them with --benchmarks."
        )
    dashes_of = dict(zip(benchmarks, BENCHMARK_DASHES, strict=False))
    models = list(dict.fromkeys(row["model"] for row in rows))
    figure, [[axis]] = panels(1)
    for n, model in enumerate(models):
        style = line_style(n)
        label = {key: style[key] for key in ("color", "marker", "markerfacecolor")}
        axis.add_line(Line2D([], [], linestyle="", label=plain(model), **label))
        for benchmark, dashes in dashes_of.items():
            points = [r for r in rows if (r["benchmark"], r["model"]) == (benchmark, model)]
            frequencies = [r["frequency"] for r in points]
            error_line(
                axis,
                [row["difficulty"] for row in points],
                [None if f is None else 100 * f for f in frequencies],
                [100 * (row["standard_error"] or 0) for row in points],
                **style | {"linestyle": dashes},
            )
    lines = [
        Line2D([], [], color="black", linestyle=dashes, label=plain(benchmark))
        for benchmark, dashes in dashes_of.items()
    ]
    figure.legend(handles=lines, loc="outside upper center", ncols=min(len(lines), 4))
    num_samples = data["settings"]["num_samples"]
    axis.set(
        xlabel=f"difficulty (wrong responses of {num_samples})",
        ylabel="problems with a reflection (%)",
        xlim=(-0.3, num_samples + 0.3),
        xticks=range(num_samples + 1),
    )
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    finish(figure, path, names=len(models))
