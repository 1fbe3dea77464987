"""`barl analyze curves`: accuracy and response length over training, from run folders."""

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ..parsers import printable

_SEED = re.compile(r"[-_](seed|s)?[-_]?\d+$")


def curves(output_dir: Path, runs: dict[str, list[Path]]) -> None:
    """Write `curves.json` and `curves.png`.

    Args:
        output_dir: Folder for the files.
        runs: Folders of runs by arm.
    """
    from ...report import run_curves

    output_dir.mkdir(parents=True, exist_ok=True)
    path = output_dir / "curves.json"
    path.write_text(json.dumps(run_curves.summarize(runs), indent=1), encoding="utf-8")
    run_curves.draw(path, output_dir / "curves.png")


def arms(runs: Sequence[str]) -> dict[str, list[Path]]:
    """Group `[ARM=]RUN_DIR` by arm: without one, by the folder's name up to the seed's number.

    Example:
        >>> sorted(arms(["runs/barl-seed1", "runs/barl-seed2", "GRPO=runs/other"]))
        ['GRPO', 'barl']
    """
    grouped = defaultdict(list)
    for run in runs:
        arm, _, folder = run.rpartition("=")
        name = Path(folder).name
        grouped[arm or _SEED.sub("", name) or name].append(Path(folder))
    return dict(grouped)


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the analysis's own options."""
    command.add_argument(
        "runs",
        nargs="+",
        metavar="[ARM=]RUN_DIR",
        help="output folders of `barl train`. Folders with the same ARM are its seeds. Without "
        "ARM, the folder's name counts, without a number at its end",
    )


def run(options: argparse.Namespace) -> None:
    """Draw the curves, and print the folders of each arm."""
    grouped = arms(options.runs)
    curves(options.output_dir, grouped)
    for arm, folders in grouped.items():
        print(printable(f"{arm}: {', '.join(map(str, folders))}"))
    print(printable(f"In {options.output_dir}: curves.png, curves.json."))
