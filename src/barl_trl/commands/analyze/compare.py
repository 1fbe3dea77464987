"""`barl analyze compare`: whether one arm is better than another, and how sure that is."""

import argparse
from collections.abc import Mapping, Sequence
from glob import glob
from pathlib import Path
from typing import Any

from ...evaluation.responses import read_responses
from ...evaluation.statistics.compared_runs import ArmValues, arms_of
from ..shell.console import print_note, print_table
from .common import Rows, arm_and_folder, refuse_repeated, write

_EQUAL = "token ratio"


def _rows(arms: Mapping[str, Sequence[Path]], benchmarks: Sequence[str] | None) -> Rows:
    """Return a row for each benchmark, arm but the last, and metric.

    Accuracy and pass@k are shares; `p_holm` is corrected over the benchmarks and arms of a metric.
    """
    if len(arms) < 2:
        raise ValueError(
            f"there must be at least two arms, got {', '.join(arms) or 'none'}: barl analyze "
            "compare ours=DIR,DIR theirs=DIR,DIR."
        )
    # imported late, as in `_metrics`: it takes a second
    from statsmodels.stats.multitest import multipletests

    read = {
        name: [read_responses(folder, benchmarks) for folder in folders]
        for name, folders in arms.items()
    }
    *names, base = arms
    rows: Rows = []
    for benchmark in read[base][0]:
        values_of = arms_of(benchmark, read)
        passed = values_of[base].passed
        for name in names:
            place = {"benchmark": benchmark, "arm": name, "base": base}
            sizes = {
                "seeds": len(values_of[name].passed),
                "base_seeds": len(passed),
                "problems": passed.shape[1],
                "samples": passed.shape[2],
            }
            for metric, statistics in _metrics(values_of[name], values_of[base]).items():
                rows.append({**place, "metric": metric, **sizes, **statistics})
    for metric in dict.fromkeys(row["metric"] for row in rows):
        tested = [row for row in rows if row["metric"] == metric and row.get("p_value") is not None]
        if tested:
            p_values = [row["p_value"] for row in tested]
            corrected: Any = multipletests(p_values, method="holm")[1]
            for row, p_value in zip(tested, corrected, strict=True):
                row["p_holm"] = float(p_value)
    return rows


def _metrics(arm: ArmValues, base: ArmValues) -> dict[str, dict[str, Any]]:
    """Return the statistics that compare an arm with the last one, by metric."""
    from ...evaluation.statistics.comparison import (
        compare,
        seeds_needed,
        tokens_at_equal_accuracy,
    )

    most = arm.passed.shape[2]
    pairs = {"accuracy": (arm.passed[..., 0], base.passed[..., 0])}
    if most > 1:
        pairs[f"pass@{most}"] = arm.passed[..., -1], base.passed[..., -1]
    pairs["tokens"] = arm.tokens[..., 0], base.tokens[..., 0]
    metrics: dict[str, dict[str, Any]] = {
        metric: {"mean": float(ours.mean()), "base_mean": float(theirs.mean())}
        | compare(ours, theirs)._asdict()
        | {"seeds_needed": seeds_needed(ours, theirs), "p_holm": None}
        for metric, (ours, theirs) in pairs.items()
    }
    if most > 1:
        found = tokens_at_equal_accuracy(arm, base) or (None, None, None)
        metrics[_EQUAL] = dict(zip(("ratio", "low", "high"), found, strict=True))
    return metrics


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the analysis's own options."""
    command.set_defaults(run=_run)
    text = (
        "an arm's folders of responses, one for each training seed; all are compared with the last"
    )
    command.add_argument("arms", nargs="+", metavar="NAME=DIR[,DIR...]", help=f"{text} arm")
    command.add_argument(
        "--benchmarks",
        type=lambda text: text.split(","),
        help="benchmarks, separated by commas (default: those of the last arm)",
    )


def _run(options: argparse.Namespace) -> None:
    """Compare every arm but the last with the last one: `compare.json`, `compare.png`, tables."""
    arms = _named_folders(options.arms)
    rows = _rows(arms, options.benchmarks)
    from ...report.figures.analysis_figures import draw_comparison  # imported late, too

    folders = {name: [str(folder) for folder in of_arm] for name, of_arm in arms.items()}
    path = write(options.output_dir / "compare.json", {"arms": folders}, rows)
    draw_comparison(path, options.output_dir / "compare.png")
    tables: dict[str, Rows] = {}
    for row in rows:
        seeds = f"{row['seeds']} against {row['base_seeds']} seeds"
        title = f"{row['benchmark']}: {row['arm']} and {row['base']} ({seeds})"
        tables.setdefault(title, []).append(row)
    for title, of_table in tables.items():
        print_table(title, [_cells(row) for row in of_table])
    fewest_seeds = min(min(row["seeds"], row["base_seeds"]) for row in rows)
    if fewest_seeds < 2:
        print_note(
            "With one seed of an arm, its luck in training is not in the interval: this compares "
            "two checkpoints, not two methods. The number of seeds that would do is unknown (?)."
        )
    elif fewest_seeds < 3:
        print_note("With two seeds the interval covers the truth 92 times of 100, not 95.")
    print_note(
        "Accuracy and pass@k are in percent; token ratio: tokens for the same accuracy, - where "
        "one response of an arm is more accurate than all of the other. [95 %]: "
        "over training seeds and problems. p: corrected over benchmarks and arms (Holm). detects: "
        "the smallest difference that is found with a probability of 80 %. seeds: so many of each "
        "arm find one of the size seen; - where a hundred do not, and more problems are needed. "
        "Where the difference does not vary at all, nothing says how sure it is: all are -. "
        f"In {options.output_dir}: compare.json, compare.png."
    )


def _named_folders(texts: Sequence[str]) -> dict[str, list[Path]]:
    """Return the folders of each arm; a folder may be a pattern.

    Raises:
        ValueError: A name or a folder is given twice, or a folder is missing.
    """
    arms: dict[str, list[Path]] = {}
    for text in texts:
        name, folders = arm_and_folder(text)
        name = name or Path(text).resolve().name
        if name in arms:
            raise ValueError(
                f"arms must have different names, got {name} twice: NAME=DIR names one."
            )
        arms[name] = []
        for pattern in folders.split(","):
            is_folder = Path(pattern).exists()
            matches = [Path(pattern)] if is_folder else sorted(map(Path, glob(pattern)))
            if not matches:
                raise ValueError(
                    f"the folders of an arm must exist, got {pattern} for {name}: `barl evaluate` "
                    "writes them."
                )
            arms[name] += matches
    refuse_repeated(arms)
    return arms


def _cells(row: dict[str, Any]) -> dict[str, str]:
    cells = {"metric": row["metric"]}
    if row["metric"] == _EQUAL:
        ratio = [row[name] for name in ("ratio", "low", "high")]
        difference = "-" if None in ratio else "x {:.2f} [{:.2f}, {:.2f}]".format(*ratio)
        texts = "", "", difference, "", "", ""
    else:
        scale, form = (1, ",.0f") if row["metric"] == "tokens" else (100, ",.1f")

        def text(key: str, form: str = form, scale: int = scale) -> str:
            return "-" if row[key] is None else format(scale * row[key], form)

        middle, low, high = (text(key, f"+{form}") for key in ("difference", "low", "high"))
        texts = (
            text("mean"),
            text("base_mean"),
            f"{middle} [{low}, {high}]",
            text("p_holm", ".3f", 1),
            text("detectable"),
            "?" if min(row["seeds"], row["base_seeds"]) < 2 else text("seeds_needed", "d", 1),
        )
    names = (row["arm"], row["base"], "difference [95 %]", "p", "detects", "seeds")
    return cells | dict(zip(names, texts, strict=True))
