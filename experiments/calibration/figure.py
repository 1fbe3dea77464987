"""Reliability: what is believed against what comes of it, for each way of asking."""

from pathlib import Path

from barl_trl.report.figures.styles import finish, line_style, panels, plain, styled
from barl_trl.report.json_files import read_json

TITLES = {
    "plausibility": ("plausibility of an answer", "share of continuations with it"),
    "truth_mass": ("posterior of the truth", "share of continuations that end right"),
}
FEWEST = 0.01
"""Share of the points that a bin must have to be drawn."""


@styled
def draw(results: str | Path, path: str | Path) -> None:
    """Draw a column for each kind of variant, a row for each quantity; the diagonal is right.

    Args:
        results: JSON with `rows` of `variant` (`"default"`, or `"kind: name"`), `quantity`,
            `num_points` and `bins` of `believed`, `share`, `standard_error`, `number`.
        path: PNG to write.
    """
    rows = read_json(results, rows=list)["rows"]
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    kinds = list(dict.fromkeys(name.split(": ")[0] for name in variants if ": " in name))
    figure, axes = panels(len(kinds), len(TITLES))
    for line, (quantity, (believed, share)) in zip(axes, TITLES.items(), strict=True):
        for axis, kind in zip(line, kinds, strict=True):
            axis.plot([0, 1], [0, 1], color="0.7", linewidth=1)
            for row in rows:
                is_shown = row["variant"] == "default" or row["variant"].startswith(f"{kind}: ")
                if row["quantity"] != quantity or not is_shown:
                    continue
                bins = [b for b in row["bins"] if b["number"] >= FEWEST * row["num_points"]]
                axis.errorbar(
                    [b["believed"] for b in bins],
                    [b["share"] for b in bins],
                    yerr=[b["standard_error"] or 0 for b in bins],
                    label=plain(row["variant"]),
                    **line_style(variants.index(row["variant"])),
                )
            axis.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xlabel=believed)
        line[0].set_ylabel(share)
    for axis, kind in zip(axes[0], kinds, strict=True):
        axis.set_title(f"by {kind}")
    title = "What is believed, and how often it comes true; bars: ± one standard error"
    finish(figure, path, title)
