"""`barl analyze`: from response files to tables and figures. Each analysis's own options:
`barl analyze ANALYSIS --help`.
"""

import argparse
import sys
from importlib import import_module
from pathlib import Path

ANALYSES = {
    "efficiency": "pass@k against the tokens of k responses, several models in one figure",
    "reflections": "how often responses reflect, by the difficulty of the problem",
    "curves": "accuracy and response length over training, from run folders",
    "values": "what the steps of responses are worth under a checkpoint's belief: Bayesian values",
}
"""Each is a module of `barl_trl.analyses`."""


def main(argv: list[str] | None = None) -> None:
    """Run an analysis."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(
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
    try:
        options.run(options)
    except (ValueError, OSError) as error:
        sys.exit(f"barl analyze: {error}")


if __name__ == "__main__":
    main()
