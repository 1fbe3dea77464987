"""`python -m experiments.credit`: a report of all comparisons, or gradients at checkpoints."""

import argparse
from pathlib import Path

from barl_trl.commands.shell.console import at_least_one
from barl_trl.commands.shell.parsers import OneLineParser

from ..entry import ended_in_one_line
from . import report
from .gradients import at_checkpoints

PROG = "python -m experiments.credit"


def main(argv: list[str] | None = None) -> None:
    """Run `report` or `gradients`."""
    parser = OneLineParser(prog=PROG, description="Compares the credits of steps.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    text = "compare the credits of steps by gradients and trainings (four hours on two cores)"
    command = commands.add_parser("report", help=text, description=text)
    command.add_argument(
        "--parts",
        type=_parts,
        default="ABCDE",
        help="parts of docs/credit-evidence.md, such as BC",
    )
    command.add_argument(
        "--seeds", type=at_least_one, help="seeds per arm (default: 8 to 20, by part)"
    )
    command.set_defaults(run=report.run, output_dir=Path("outputs/credit"))
    text = "say which credit gives the best gradient, on the rollouts of checkpoints"
    command = commands.add_parser("gradients", help=text, description=text)
    at_checkpoints.add_options(command)
    command.set_defaults(run=at_checkpoints.run, output_dir=Path("outputs/gradients"))
    for command in commands.choices.values():
        command.add_argument("--output_dir", type=Path, help="folder of the results")
    options = parser.parse_args(argv)
    with ended_in_one_line(PROG):
        options.run(options)


def _parts(text: str) -> str:
    if not text or set(text) - set("ABCDE"):
        raise argparse.ArgumentTypeError(f"must be letters of ABCDE, got {text!r}")
    return "".join(sorted(set(text)))


if __name__ == "__main__":
    main()
