"""How all figures are drawn and saved. Lines can be told apart without their colours."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib import style

_BLUE = "#0072B2"
_COLORS = (_BLUE, "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that colour-blind readers can tell apart: Okabe and Ito (2008), without the yellow."""

_MARKERS = "os^DvPX*"
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))

_FILE = Path(__file__).with_name("figures.mplstyle")
styled = style.context([_FILE, {"axes.prop_cycle": plt.cycler(color=_COLORS)}])
"""Decorator of a function that draws: it draws with the style of all figures."""


def line_style(n: int) -> dict[str, Any]:
    """Return colour, marker and dashes of the n-th line. Every other marker is hollow."""
    return {
        "color": _COLORS[n % len(_COLORS)],
        "marker": _MARKERS[n % len(_MARKERS)],
        "linestyle": DASHES[n % len(DASHES)],
        "markerfacecolor": "white" if n % 2 else _COLORS[n % len(_COLORS)],
        "markersize": 5,
        "capsize": 2,
        "elinewidth": 0.8,
    }


def plain(name: str) -> str:
    """Return a name that matplotlib draws as it is.

    A dollar would start a formula, and a legend would hide a name that begins with `_`.
    """
    name = name.replace("$", r"\$")
    return f"\u200b{name}" if name.startswith("_") else name


def panels(columns: int, rows: int = 1) -> tuple[Any, Any]:
    """Return a figure and the array of its axes, (rows, columns)."""
    size = max(4.2, 3.3 * columns), 0.7 + 2.6 * rows
    return plt.subplots(
        rows, columns, figsize=size, layout="constrained", squeeze=False, sharex="col"
    )


def finish(figure, path: str | Path, title: str | None = None) -> None:
    """Put a title above all panels and their legend below them, and save the figure."""
    if title:
        figure.suptitle(title, x=0.01, ha="left")
    handles = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    ncols = max(1, min(len(handles), 5))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=ncols)
    # the legend may be wider than the panels
    save(figure, path, bbox_inches="tight")


def save(figure, path: str | Path, *, dpi: int = 130, **options) -> None:
    """Save a figure as PNG, and close it."""
    figure.savefig(path, dpi=dpi, **options)
    plt.close(figure)
