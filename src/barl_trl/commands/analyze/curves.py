"""`barl analyze curves`: accuracy, response length and beliefs over training, from run folders."""

import argparse
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ...report.json_files import write_json
from ..shell.parsers import printable
from .common import arm_and_folder, refuse_repeated

_SEED = re.compile(r"[-_](seed|s)?[-_]?\d+$")


def _arms(runs: Sequence[str]) -> dict[str, list[Path]]:
    """Group `[ARM=]RUN_DIR` by arm: without one, by the folder's name up to the seed's number.

    Example:
        >>> sorted(_arms(["runs/barl-seed1", "runs/barl-seed2", "GRPO=runs/other"]))
        ['GRPO', 'barl']
    """
    grouped = defaultdict(list)
    for run in runs:
        arm, folder = arm_and_folder(run)
        name = Path(folder).name
        grouped[arm or _SEED.sub("", name) or name].append(Path(folder))
    refuse_repeated(grouped)
    return dict(grouped)


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the analysis's own options."""
    command.set_defaults(run=_run)
    command.add_argument(
        "runs",
        nargs="+",
        metavar="[ARM=]RUN_DIR",
        help="output folders of `barl train`. Folders with the same ARM are its seeds. Without "
        "ARM, the folder's name counts, without a number at its end",
    )


def _run(options: argparse.Namespace) -> None:
    """Write `curves.json` and `curves.png`, and print the folders of each arm."""
    from ...report.figures import run_curves

    grouped = _arms(options.runs)
    path = options.output_dir / "curves.json"
    write_json(path, run_curves.summarize(grouped))
    run_curves.draw(path, options.output_dir / "curves.png")
    for arm, folders in grouped.items():
        print(printable(f"{arm}: {', '.join(map(str, folders))}"))
    print(printable(f"In {options.output_dir}: curves.png, curves.json."))
