"""How all figures are drawn and saved: lines that can be told apart without colours, panels."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

MARKERS = "os^DvPX*"
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))


def line_style(n: int) -> dict[str, Any]:
    """Colour, marker and dashes of the n-th line; every other marker is hollow."""
    return {
        "color": f"C{n % 10}",
        "marker": MARKERS[n % len(MARKERS)],
        "linestyle": DASHES[n % len(DASHES)],
        "markerfacecolor": "white" if n % 2 else f"C{n % 10}",
        "markersize": 5,
        "capsize": 2,
        "elinewidth": 0.8,
    }


def plain(name: str) -> str:
    """Return a name as it is drawn: a dollar starts no formula, `_` does not hide it in legends."""
    name = name.replace("$", r"\$")
    return f"\u200b{name}" if name.startswith("_") else name


def error_line(axis, xs, means, errors, **style) -> None:
    """Draw a line with standard errors. A mean that is None has no point, an error no bar."""
    points = [(x, y, e or 0.0) for x, y, e in zip(xs, means, errors, strict=True) if y is not None]
    if points:
        xs, means, errors = zip(*points, strict=True)
        axis.errorbar(xs, means, yerr=errors, **style)


def panels(columns: int, rows: int = 1) -> tuple[Any, Any]:
    """Return a figure and its axes, `rows` x `columns`."""
    size = max(4.2, 3.3 * columns), 0.7 + 2.6 * rows
    return plt.subplots(
        rows, columns, figsize=size, layout="constrained", squeeze=False, sharex="col"
    )


def finish(figure, path, *, names: int) -> None:
    """Put the legend of all panels below them, and save the figure."""
    handles = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(names, 4))
    # the legend may be wider than the panels
    save(figure, path, bbox_inches="tight")


def save(figure, path: str | Path, *, dpi: int = 130, **options) -> None:
    """Write a figure as PNG, and close it."""
    figure.savefig(path, dpi=dpi, **options)
    plt.close(figure)
