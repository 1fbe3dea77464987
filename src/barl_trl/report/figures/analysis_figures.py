"""Figures of `barl analyze` on responses: token efficiency, values, reflections, comparisons.

Each is drawn from the JSON file that the analysis wrote. The `rows` in it have a `benchmark` and,
except for comparisons, a `model`.
"""

import math
from collections import Counter
from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from ..json_files import read_json
from .styles import DASHES, finish, line_style, panels, plain, styled

VALUE_TITLES = {
    "bayesian_values": "Bayesian value",
    "posterior_weighted_values": "posterior-weighted value",
}
_SELECTIONS = ("all", "correct", "wrong")
_DRAWN_SHARE = 0.05
"""Timesteps that a smaller share of a model's problems reach are noise, and are not drawn."""

_BENCHMARK_DASHES = ("--", "-", *DASHES[2:])
"""The paper draws its first benchmark (GSM8K) dashed and its second (MATH) solid."""

_Rows = list[dict[str, Any]]


@styled
def draw_efficiency(results: str | Path, path: str | Path, *, with_greedy: bool) -> None:
    """Draw pass@k against the tokens of the k responses, a panel for each benchmark.

    Args:
        results: JSON with `rows` of `with_greedy`, `k`, `accuracy`, `standard_error`, `tokens`,
            `num_problems`.
        path: PNG to write.
        with_greedy: Whether to draw the rows in which the greedy response is one of the k, or the
            rows in which all k responses are sampled.
    """
    rows = _where(read_json(results, rows=list)["rows"], with_greedy=with_greedy)
    benchmarks = _names(rows, "benchmark")
    figure, axes = panels(len(benchmarks))
    for axis, benchmark in zip(axes[0], benchmarks, strict=True):
        for n, model in enumerate(_names(rows, "model")):
            points = _where(rows, benchmark=benchmark, model=model)
            _draw_model(axis, n, points, "tokens", "accuracy", scale=100)
        axis.set(title=_title(rows, benchmark), xlabel="mean total tokens of k responses")
        axis.set_xlim(left=0)
    ks = [row["k"] for row in rows]
    greedy = "one of them greedy" if with_greedy else "all sampled"
    axes[0][0].set_ylabel(f"pass@k (%), k = {min(ks)} … {max(ks)},\n{greedy}")
    title = "Accuracy against what it costs; bars: ± one standard error over problems"
    finish(figure, path, title)


@styled
def draw_values(results: str | Path, path: str | Path, *, value: str = "bayesian_values") -> None:
    """Draw values by timestep: of all responses, the correct and the wrong ones.

    Args:
        results: JSON with `rows` of `value`, `responses`, `timestep`, `mean`, `standard_error`,
            `num_problems`, and `settings` with `step`, the definition of a step in words.
        path: PNG to write.
        value: Name of the value to draw, a key of [`VALUE_TITLES`].
    """
    data = read_json(results, rows=list, settings=dict)
    rows = [row for row in data["rows"] if row["value"] == value and row["timestep"] is not None]
    benchmarks = _names(rows, "benchmark")
    figure, axes = panels(len(benchmarks), len(_SELECTIONS))
    for line, selection in zip(axes, _SELECTIONS, strict=True):
        for axis, benchmark in zip(line, benchmarks, strict=True):
            for n, model in enumerate(_names(rows, "model")):
                points = _where(rows, benchmark=benchmark, model=model, responses=selection)
                fewest = _DRAWN_SHARE * max((row["num_problems"] for row in points), default=0)
                points = [row for row in points if row["num_problems"] >= fewest]
                _draw_model(axis, n, points, "timestep", "mean")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        line[0].set_ylabel(f"{VALUE_TITLES[value]} (reward)\n{selection} responses")
    for top, bottom, benchmark in zip(axes[0], axes[-1], benchmarks, strict=True):
        top.set_title(_title(rows, benchmark))
        bottom.set_xlabel(plain(f"timestep t (step: {data['settings']['step']})"))
    title = VALUE_TITLES[value].capitalize()
    finish(figure, path, f"{title} of each step; bars: ± one standard error over problems")


@styled
def draw_reflections(results: str | Path, path: str | Path) -> None:
    """Draw how often responses reflect: markers for models, dashes for benchmarks.

    Args:
        results: JSON with `rows` of `difficulty`, `frequency`, `low`, `high`, `num_problems`, and
            `settings` with `num_samples`.
        path: PNG to write.

    Raises:
        ValueError: There are more benchmarks than ways to dash a line.
    """
    data = read_json(results, rows=list, settings=dict)
    rows, num_samples = data["rows"], data["settings"]["num_samples"]
    benchmarks = _names(rows, "benchmark")
    if len(benchmarks) > len(_BENCHMARK_DASHES):
        raise ValueError(
            f"benchmarks must be at most {len(_BENCHMARK_DASHES)} in one figure, got "
            f"{', '.join(benchmarks)}: choose them with --benchmarks."
        )
    figure, [[axis]] = panels(1)
    for n, model in enumerate(_names(rows, "model")):
        style = line_style(n)
        marker = {key: style[key] for key in ("color", "marker", "markerfacecolor")}
        axis.add_line(Line2D([], [], linestyle="", label=plain(model), **marker))
        for benchmark, dashes in zip(benchmarks, _BENCHMARK_DASHES, strict=False):
            points = _where(rows, benchmark=benchmark, model=model)
            points = [row for row in points if row["frequency"] is not None]
            axis.errorbar(
                [row["difficulty"] for row in points],
                [100 * row["frequency"] for row in points],
                yerr=_to_both_sides(points, "frequency", 100),
                **style | {"linestyle": dashes},
            )
    lines = [
        Line2D([], [], color="0.2", linestyle=dashes, label=_with_number(rows, benchmark))
        for benchmark, dashes in zip(benchmarks, _BENCHMARK_DASHES, strict=False)
    ]
    figure.legend(handles=lines, loc="outside upper center", ncols=min(len(lines), 4))
    axis.set(
        xlabel=f"difficulty (wrong responses of {num_samples})",
        ylabel="problems with a reflection (%)",
        title="How often responses reflect; bars: intervals of 95 %",
        xlim=(-0.3, num_samples + 0.3),
        xticks=range(num_samples + 1),
    )
    axis.set_ylim(bottom=0)
    finish(figure, path)


@styled
def draw_comparison(results: str | Path, path: str | Path) -> None:
    """Draw a forest plot: a panel for each metric, with a line for each benchmark.

    Args:
        results: JSON with `rows` of `arm`, `base`, `metric`, `low`, `high`, and `difference` or
            `ratio`.
        path: PNG to write.
    """
    rows = read_json(results, rows=list)["rows"]
    benchmarks, metrics, arms = (_names(rows, key) for key in ("benchmark", "metric", "arm"))
    figure, axes = panels(len(metrics))
    figure.set_figheight(1.6 + 0.35 * len(benchmarks) * len(arms))
    for axis, metric in zip(axes[0], metrics, strict=True):
        value = "ratio" if "ratio" in _where(rows, metric=metric)[0] else "difference"
        scale = 1 if value == "ratio" or metric == "tokens" else 100
        for n, arm in enumerate(arms):
            points = [r for r in _where(rows, metric=metric, arm=arm) if r[value] is not None]
            offset = 0.6 * (n - (len(arms) - 1) / 2) / len(arms)
            axis.errorbar(
                [scale * row[value] for row in points],
                [benchmarks.index(row["benchmark"]) + offset for row in points],
                xerr=_to_both_sides(points, value, scale),
                label=plain(f"{arm} against {rows[0]['base']}"),
                **line_style(n) | {"linestyle": "none", "capsize": 3, "elinewidth": 1.4},
            )
        axis.axvline(1 if value == "ratio" else 0, color="0.3", linewidth=0.8)
        unit = "difference" + (" (points)" if scale > 1 else "")
        unit = "times as many" if value == "ratio" else unit
        axis.set(title=metric, xlabel=unit, ylim=(len(benchmarks) - 0.5, -0.5))
        names = benchmarks if axis is axes[0][0] else []
        axis.set_yticks(range(len(names)), [*map(plain, names)])
        axis.grid(axis="y", visible=False)
    finish(figure, path, "Differences with intervals of 95 %")


def _names(rows: _Rows, key: str) -> list[str]:
    return list(dict.fromkeys(row[key] for row in rows))


def _where(rows: _Rows, **values: Any) -> _Rows:
    """Return the rows that have these values."""
    return [row for row in rows if all(row[key] == value for key, value in values.items())]


def _title(rows: _Rows, benchmark: str) -> str:
    number = max(row["num_problems"] for row in _where(rows, benchmark=benchmark))
    return f"{plain(benchmark)} (n = {number})"


def _with_number(rows: _Rows, benchmark: str) -> str:
    """Return the benchmark's name, with the number of its problems over all difficulties."""
    numbers: Counter[str] = Counter()
    for row in _where(rows, benchmark=benchmark):
        numbers[row["model"]] += row["num_problems"]
    return plain(f"{benchmark} (n = {max(numbers.values())})")


def _to_both_sides(points: _Rows, value: str, scale: float) -> list[list[float]]:
    """Return how far the ends `low` and `high` of intervals are from the values; NaN without."""
    return [
        [math.nan if row[end] is None else sign * scale * (row[end] - row[value]) for row in points]
        for end, sign in (("low", -1), ("high", 1))
    ]


def _draw_model(axis, n: int, points: _Rows, x: str, y: str, scale: float = 1) -> None:
    """Draw the n-th model's line through points at keys `x` and `y`, with standard errors."""
    if points:
        axis.errorbar(
            [row[x] for row in points],
            [scale * row[y] for row in points],
            yerr=[scale * (row["standard_error"] or 0) for row in points],
            label=plain(points[0]["model"]),
            **line_style(n),
        )
