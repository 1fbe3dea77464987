"""A forest plot: how far arms are from one of them, by benchmark, with intervals of 95 %."""

from pathlib import Path

from .json_files import read_json
from .styles import finish, headline, line_style, panels, plain, styled


@styled
def draw(results: str | Path, path: str | Path) -> None:
    """Draw a panel for each metric, with a line for each benchmark.

    Args:
        results: JSON with `rows` of `benchmark`, `arm`, `base`, `metric`, `low`, `high`, and
            `difference` or `ratio`.
        path: PNG to write.
    """
    rows = read_json(results, rows=list)["rows"]
    benchmarks = list(dict.fromkeys(row["benchmark"] for row in rows))
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    figure, axes = panels(len(metrics))
    figure.set_figheight(1.6 + 0.35 * len(benchmarks) * len(arms))
    for axis, metric in zip(axes[0], metrics, strict=True):
        for n, arm in enumerate(arms):
            found = [row for row in rows if (row["metric"], row["arm"]) == (metric, arm)]
            is_ratio = "ratio" in found[0]
            scale = 1 if is_ratio or metric == "tokens" else 100
            middles = [scale * row["ratio" if is_ratio else "difference"] for row in found]
            ends = [(scale * row["low"], scale * row["high"]) for row in found]
            places = [benchmarks.index(row["benchmark"]) for row in found]
            axis.errorbar(
                middles,
                [place + 0.6 * (n - (len(arms) - 1) / 2) / len(arms) for place in places],
                xerr=[
                    [middle - low for middle, (low, _) in zip(middles, ends, strict=True)],
                    [high - middle for middle, (_, high) in zip(middles, ends, strict=True)],
                ],
                label=plain(f"{arm} against {rows[0]['base']}"),
                **line_style(n) | {"linestyle": "none", "capsize": 3, "elinewidth": 1.4},
            )
        axis.axvline(1 if is_ratio else 0, color="0.3", linewidth=0.8)
        unit = "times as many" if is_ratio else "difference" + (" (points)" if scale > 1 else "")
        axis.set(title=metric, xlabel=unit, ylim=(len(benchmarks) - 0.5, -0.5))
        names = benchmarks if axis is axes[0][0] else []
        axis.set_yticks(range(len(names)), [*map(plain, names)])
        axis.grid(axis="y", visible=False)
    headline(figure, "Differences with intervals of 95 %")
    finish(figure, path, names=len(arms))
