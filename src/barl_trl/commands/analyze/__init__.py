"""`barl analyze`: from response files to tables and figures.

`barl analyze ANALYSIS --help` lists the options of an analysis.
"""

from importlib import import_module
from pathlib import Path

from ..shell.console import mistakes_in_one_line
from ..shell.parsers import OneLineParser

ANALYSES = {
    "efficiency": "draw pass@k against the tokens of k responses",
    "reflections": "count how often responses reflect, by the difficulty of the problem",
    "curves": "draw accuracy, response length and beliefs over training, from run folders",
    "compare": "say whether one arm is better than another, over training seeds and problems",
    "values": "compute the Bayesian value of each step of responses, under a checkpoint's belief",
}
"""Each is a module here. Its `add_options` adds its options, and says what runs."""


def main(argv: list[str]) -> None:
    """Run an analysis."""
    parser = OneLineParser(
        prog="barl analyze",
        description="Makes tables and figures from what `barl evaluate` and `barl train` wrote.",
    )
    commands = parser.add_subparsers(dest="analysis", required=True, metavar="ANALYSIS")
    for name, text in ANALYSES.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == (argv or [None])[0]:  # the libraries of the others are not imported
            command.add_argument(
                "--output_dir",
                type=Path,
                default=Path("outputs/analysis"),
                help="folder of the results",
            )
            import_module(f".{name}", __package__).add_options(command)
    options = parser.parse_args(argv)
    with mistakes_in_one_line("barl analyze"):
        options.run(options)
