"""The paper's figure on the effectiveness of chains of thought: values by timestep."""

from pathlib import Path

from matplotlib.ticker import MaxNLocator

from .json_files import read_json
from .styles import error_line, finish, headline, line_style, panels, plain, styled

TITLES = {
    "bayesian_values": "Bayesian value",
    "posterior_weighted_values": "posterior-weighted value",
}
SELECTIONS = ("all", "correct", "wrong")
DRAWN_SHARE = 0.05
"""Of a model's problems. Timesteps that fewer of them reach are noise, and are not drawn."""


@styled
def draw(results: str | Path, path: str | Path, *, value: str = "bayesian_values") -> None:
    """Draw a column for each benchmark: all responses, the correct and the wrong ones.

    Args:
        results: JSON with `rows` of `benchmark`, `model`, `value`, `responses`, `timestep`, `mean`,
            `standard_error`, `num_problems`, and `settings` with `step`, what a step is.
        path: PNG to write.
        value: Which value to draw.
    """
    data = read_json(results, rows=list, settings=dict)
    rows = [row for row in data["rows"] if row["value"] == value and row["timestep"] is not None]
    benchmarks = list(dict.fromkeys(row["benchmark"] for row in rows))
    models = list(dict.fromkeys(row["model"] for row in rows))
    figure, axes = panels(len(benchmarks), len(SELECTIONS))
    for i, selection in enumerate(SELECTIONS):
        for axis, benchmark in zip(axes[i], benchmarks, strict=True):
            for n, model in enumerate(models):
                place = (benchmark, model, selection)
                points = [r for r in rows if (r["benchmark"], r["model"], r["responses"]) == place]
                fewest = DRAWN_SHARE * max((row["num_problems"] for row in points), default=0)
                points = [row for row in points if row["num_problems"] >= fewest]
                error_line(
                    axis,
                    [row["timestep"] for row in points],
                    [row["mean"] for row in points],
                    [row["standard_error"] for row in points],
                    label=plain(model),
                    **line_style(n),
                )
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes[i][0].set_ylabel(f"{TITLES[value]} (reward)\n{selection} responses")
    for top, bottom, benchmark in zip(axes[0], axes[-1], benchmarks, strict=True):
        number = max(row["num_problems"] for row in rows if row["benchmark"] == benchmark)
        top.set_title(f"{plain(benchmark)} (n = {number})")
        bottom.set_xlabel(plain(f"timestep t (step: {data['settings']['step']})"))
    text = f"{TITLES[value].capitalize()} of each step; bars: ± one standard error over problems"
    headline(figure, text)
    finish(figure, path, names=len(models))
