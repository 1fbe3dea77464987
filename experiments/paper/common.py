"""What the analyses of responses share: folders of models, rows of results, figures."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

from barl_trl.evaluation.responses import ResponsesByProblem, read_responses
from barl_trl.evaluation.results import text_table

matplotlib.use("Agg")

import matplotlib.pyplot as plt

Rows = list[dict[str, Any]]

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that colour-blind readers can tell apart: Okabe and Ito (2008), without the yellow."""
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
_MARKERS = "os^DvPX*"
_STYLE: Any = {
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "grid.color": "0.9",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.titlesize": 11,
}


def line_style(n: int) -> dict[str, Any]:
    """Return colour, marker and dashes of the n-th line. Every other marker is hollow."""
    return {
        "color": COLORS[n % len(COLORS)],
        "marker": _MARKERS[n % len(_MARKERS)],
        "linestyle": DASHES[n % len(DASHES)],
        "markerfacecolor": "white" if n % 2 else COLORS[n % len(COLORS)],
        "markersize": 5,
        "capsize": 2,
        "elinewidth": 0.8,
    }


def plain(name: str) -> str:
    """Return a name that matplotlib draws as it is: a dollar would start a formula."""
    name = name.replace("$", r"\$")
    return f"\u200b{name}" if name.startswith("_") else name  # which a legend would hide


@contextmanager
def panels(
    path: Path, columns: int, rows: int = 1, title: str | None = None
) -> Iterator[tuple[Any, Any]]:
    """Give a figure and its axes, (rows, columns); save it as PNG, the legend below all panels."""
    with plt.rc_context(_STYLE):  # pyright: ignore[reportArgumentType]  # names of settings
        size = max(4.2, 3.3 * columns), 0.7 + 2.6 * rows
        figure, axes = plt.subplots(
            rows, columns, figsize=size, layout="constrained", squeeze=False, sharex="col"
        )
        yield figure, axes
        if title:
            figure.suptitle(title, x=0.01, ha="left")
        handles: dict[str, Any] = {}
        for axis in figure.axes:
            for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        columns = max(1, min(len(handles), 5))
        figure.legend([*handles.values()], [*handles], loc="outside lower center", ncols=columns)
        figure.savefig(path, dpi=130, bbox_inches="tight")
        plt.close(figure)


def draw_lines(axis: Any, rows: Rows, x: str, y: str, scale: float = 1) -> None:
    """Draw a line for each model in `rows`, with standard errors."""
    for n, model in enumerate(names(rows, "model")):
        points = [row for row in rows if row["model"] == model]
        axis.errorbar(
            [row[x] for row in points],
            [scale * row[y] for row in points],
            yerr=[scale * (row["standard_error"] or 0) for row in points],
            label=plain(model),
            **line_style(n),
        )


def names(rows: Rows, key: str) -> list[str]:
    """Return the values of a key, in their order."""
    return list(dict.fromkeys(row[key] for row in rows))


def parser_of(text: str | None, output_dir: str) -> argparse.ArgumentParser:
    """Make a parser with the options of all analyses of responses."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--names", nargs="+", help="names of the models, if not their folders'")
    parser.add_argument("--benchmarks", help="separated by commas, if not all")
    parser.add_argument("--output_dir", type=Path, default=Path(output_dir))
    return parser


def read_models(
    options: argparse.Namespace, folders: Sequence[Path]
) -> dict[str, dict[str, ResponsesByProblem]]:
    """Return the responses of each model to each benchmark, as `--names` and `--benchmarks` say."""
    benchmarks = options.benchmarks and options.benchmarks.split(",")
    models = options.names or [folder.resolve().name for folder in folders]
    if len({*models}) < len(models):
        raise ValueError(f"--names must differ, got {', '.join(models)}.")
    return {
        name: read_responses(folder, benchmarks)
        for name, folder in zip(models, folders, strict=True)
    }


def fewest_samples(models: dict[str, dict[str, ResponsesByProblem]]) -> int:
    """Return the smallest number of responses to a problem, over all models and benchmarks."""
    benchmarks = (problems for of_model in models.values() for problems in of_model.values())
    return min(len(responses) for problems in benchmarks for responses in problems.values())


def show(title: str, rows: Rows, keys: Sequence[str], cells: Callable[[Rows], dict[str, str]]):
    """Print a line for the rows of each value of the keys; `cells` are its further cells."""
    groups: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    lines = [
        {key: str(value) for key, value in zip(keys, place, strict=True)} | cells(of_line)
        for place, of_line in groups.items()
    ]
    print(text_table(title, lines))
