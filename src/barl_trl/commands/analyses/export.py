"""`barl analyze export`: responses as logs of inspect_ai, for its viewer."""

import argparse
import shlex
from pathlib import Path

from ..parsers import printable


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the analysis's own options."""
    command.add_argument(
        "folders", nargs="+", type=Path, metavar="DIR", help="a folder that `barl evaluate` wrote"
    )
    command.add_argument(
        "--benchmarks",
        type=lambda text: text.split(","),
        help="benchmarks, separated by commas (default: all)",
    )


def run(options: argparse.Namespace) -> None:
    """Write the logs, and say how to look at them."""
    from ...evaluation.inspect_log import export

    for folder in options.folders:
        for path in export(folder, options.output_dir, benchmarks=options.benchmarks):
            print(printable(str(path)))
    folder = shlex.quote(str(options.output_dir))
    print(printable(f"To look at them: inspect view --log-dir {folder}"))
