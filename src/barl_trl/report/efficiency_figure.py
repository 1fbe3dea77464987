"""The paper's figures on token efficiency: pass@k against the total tokens of the k responses."""

from pathlib import Path

from .json_files import read_json
from .styles import error_line, finish, headline, line_style, panels, plain, styled


@styled
def draw(results: str | Path, path: str | Path, *, with_greedy: bool) -> None:
    """Draw a panel for each benchmark with a line for each model.

    Args:
        results: JSON with `rows` of `benchmark`, `model`, `with_greedy`, `k`, `accuracy`,
            `standard_error`, `tokens`, `num_problems`.
        path: PNG to write.
        with_greedy: Which rows to draw: those where the greedy response is one of the k, or those
            without.
    """
    rows = [
        row for row in read_json(results, rows=list)["rows"] if row["with_greedy"] == with_greedy
    ]
    benchmarks = list(dict.fromkeys(row["benchmark"] for row in rows))
    models = list(dict.fromkeys(row["model"] for row in rows))
    figure, axes = panels(len(benchmarks))
    for axis, benchmark in zip(axes[0], benchmarks, strict=True):
        for n, model in enumerate(models):
            points = [r for r in rows if (r["benchmark"], r["model"]) == (benchmark, model)]
            error_line(
                axis,
                [row["tokens"] for row in points],
                [100 * row["accuracy"] for row in points],
                [100 * (row["standard_error"] or 0) for row in points],
                label=plain(model),
                **line_style(n),
            )
        number = max(row["num_problems"] for row in rows if row["benchmark"] == benchmark)
        axis.set(
            title=f"{plain(benchmark)} (n = {number})", xlabel="mean total tokens of k responses"
        )
        axis.set_xlim(left=0)
    ks = [row["k"] for row in rows]
    greedy = "one of them greedy" if with_greedy else "all sampled"
    axes[0][0].set_ylabel(f"pass@k (%), k = {min(ks)} … {max(ks)},\n{greedy}")
    headline(figure, "Accuracy against what it costs; bars: ± one standard error over problems")
    finish(figure, path, names=len(models))
