"""The paper's figure on reflections: how often they occur, by the difficulty of the problem."""

from collections import Counter
from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D

from .json_files import read_json
from .styles import DASHES, error_line, finish, line_style, panels, plain, styled

BENCHMARK_DASHES = ("--", "-", *DASHES[2:])
"""The paper draws its first benchmark (GSM8K) dashed and its second (MATH) solid."""


@styled
def draw(results: str | Path, path: str | Path) -> None:
    """Draw all models and benchmarks into one panel: markers for models, dashes for benchmarks.

    Args:
        results: JSON with `rows` of `benchmark`, `model`, `difficulty`, `frequency`,
            `low`, `high`, `num_problems`, and `settings` with `num_samples`.
        path: PNG to write.

    Raises:
        ValueError: There are more benchmarks than ways to dash a line.
    """
    data = read_json(results, rows=list, settings=dict)
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
                [_ends(row) for row in points],
                **style | {"linestyle": dashes},
            )
    lines = [
        Line2D([], [], color="0.2", linestyle=dashes, label=plain(_with_number(benchmark, rows)))
        for benchmark, dashes in dashes_of.items()
    ]
    figure.legend(handles=lines, loc="outside upper center", ncols=min(len(lines), 4))
    num_samples = data["settings"]["num_samples"]
    axis.set(
        xlabel=f"difficulty (wrong responses of {num_samples})",
        ylabel="problems with a reflection (%)",
        title="How often responses reflect; bars: intervals of 95 %",
        xlim=(-0.3, num_samples + 0.3),
        xticks=range(num_samples + 1),
    )
    axis.set_ylim(bottom=0)
    finish(figure, path, names=len(models))


def _with_number(benchmark: str, rows: list[dict[str, Any]]) -> str:
    """Return the benchmark's name, with the number of its problems."""
    numbers: Counter[str] = Counter()
    for row in rows:
        if row["benchmark"] == benchmark:
            numbers[row["model"]] += row["num_problems"]
    return f"{benchmark} (n = {max(numbers.values())})"


def _ends(row: dict[str, Any]) -> tuple[float, float]:
    """Return how far the ends of a row's interval are from its frequency, in percent."""
    if row["frequency"] is None:
        return 0.0, 0.0
    return 100 * (row["frequency"] - row["low"]), 100 * (row["high"] - row["frequency"])
