"""`barl analyze`: from response files to tables and figures.

Each analysis's own options: `barl analyze ANALYSIS --help`.
"""

from importlib import import_module
from pathlib import Path

from .console import mistakes_in_one_line
from .parsers import OneLineParser

ANALYSES = {
    "efficiency": "pass@k against the tokens of k responses, several models in one figure",
    "reflections": "how often responses reflect, by the difficulty of the problem",
    "curves": "accuracy and response length over training, from run folders",
    "compare": "whether one arm is better than another, over training seeds and problems",
    "credit": "which credit gives the best gradient, on the rollouts of checkpoints",
    "calibration": "whether beliefs are right: beside what the model goes on to answer",
    "export": "responses as logs of inspect_ai: `inspect view` shows every one of them",
    "values": "what the steps of responses are worth under a checkpoint's belief: Bayesian values",
}
"""Each is a module of `barl_trl.commands.analyses`."""


def main(argv: list[str]) -> None:
    """Run an analysis."""
    parser = OneLineParser(
        prog="barl analyze", description="Tables and figures from the files of `barl evaluate`."
    )
    commands = parser.add_subparsers(dest="analysis", required=True, metavar="ANALYSIS")
    for name, text in ANALYSES.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == (argv or [None])[0]:  # no other's libraries are imported
            command.add_argument("--output_dir", type=Path, default=Path("outputs/analysis"))
            analysis = import_module(f".analyses.{name}", __package__)
            analysis.add_options(command)
            command.set_defaults(run=analysis.run)
    options = parser.parse_args(argv)
    with mistakes_in_one_line("barl analyze"):
        options.run(options)
