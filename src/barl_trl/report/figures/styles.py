"""How all figures are drawn and saved. Lines can be told apart without their colours."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

_P = ParamSpec("_P")
_R = TypeVar("_R")

BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"
_COLORS = (BLUE, VERMILION, GREEN, "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that colour-blind readers can tell apart: Okabe and Ito (2008), without the yellow."""

_STYLE: Any = {
    "axes.prop_cycle": plt.cycler(color=_COLORS),
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "0.4",
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.labelcolor": "0.25",
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.color": "0.4",
    "ytick.color": "0.4",
    "xtick.labelcolor": "0.25",
    "ytick.labelcolor": "0.25",
    "grid.color": "0.9",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.titlesize": 11,
    "savefig.facecolor": "white",
}

_MARKERS = "os^DvPX*"
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))


def styled(draw: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a function that draws with the style of all figures."""

    @wraps(draw)
    def drawn(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with plt.rc_context(_STYLE):
            return draw(*args, **kwargs)

    return drawn


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


def error_line(axis, xs, means, errors, **style) -> None:
    """Draw a line through means, with error bars.

    Args:
        axis: Panel to draw into.
        xs: Position of each point.
        means: Height of each point. A mean that is None is not drawn.
        errors: Length of each error bar, on both sides or as a pair (below, above). An error that
            is None has no bar.
        **style: Further arguments of `errorbar`.
    """
    points = [(x, y, e or 0.0) for x, y, e in zip(xs, means, errors, strict=True) if y is not None]
    if points:
        xs, means, errors = zip(*points, strict=True)
        bars = [error if isinstance(error, tuple) else (error, error) for error in errors]
        axis.errorbar(xs, means, yerr=[*zip(*bars, strict=True)], **style)


def panels(columns: int, rows: int = 1) -> tuple[Any, Any]:
    """Return a figure and the array of its axes, (rows, columns)."""
    size = max(4.2, 3.3 * columns), 0.7 + 2.6 * rows
    return plt.subplots(
        rows, columns, figsize=size, layout="constrained", squeeze=False, sharex="col"
    )


def headline(figure, text: str) -> None:
    """Write a title above all panels of a figure."""
    figure.suptitle(text, x=0.01, ha="left")


def finish(figure, path, *, names: int) -> None:
    """Put the legend of all panels below them, and save the figure."""
    handles = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(names, 5))
    # the legend may be wider than the panels
    save(figure, path, bbox_inches="tight")


def save(figure, path: str | Path, *, dpi: int = 130, **options) -> None:
    """Save a figure as PNG, and close it."""
    figure.savefig(path, dpi=dpi, **options)
    plt.close(figure)
