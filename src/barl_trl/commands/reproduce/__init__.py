"""`barl reproduce`: the paper's didactic example, decision tree and experiments."""

import argparse
import os
import sys
from pathlib import Path

from ...report.json_files import write_json
from ..shell.console import at_least_one, mistakes_in_one_line, print_table
from ..shell.interruption import kept
from ..shell.parsers import OneLineParser, printable

_FOLDER = "folder of the results"


def main(argv: list[str]) -> None:
    """Run `barl reproduce triplets|tree|paper`."""
    options = _parser().parse_args(argv)
    # no module of the working directory may shadow another in the processes that are started
    earlier = os.environ.get("PYTHONSAFEPATH", "")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        with (
            mistakes_in_one_line(f"barl reproduce {options.example}"),
            kept(lambda: (f"What is done is kept in {options.output_dir}.", "")),
        ):
            options.run(options)
    finally:
        os.environ["PYTHONSAFEPATH"] = earlier  # Python takes an empty one as unset


def _paper(options: argparse.Namespace) -> None:
    """Train and evaluate all arms, or print the commands."""
    from .paper.run import main as run

    try:
        run(options.scale, options.output_dir, range(options.seeds), is_plan=options.plan)
    except RuntimeError as error:
        sys.exit(printable(f"barl reproduce paper: {error}"))


def _tree(options: argparse.Namespace) -> None:
    """Solve the decision trees, write `results.json` and `tree.png`, and print the table."""
    from ...report.figures import tree_figure
    from ...synthetic import tree_gap
    from .triplet_runs import refuse_results

    path = options.output_dir / "results.json"
    refuse_results(path)
    options.output_dir.mkdir(parents=True, exist_ok=True)
    results = tree_gap.results()
    write_json(path, results)
    tree_figure.draw(path, options.output_dir / "tree.png")
    title = "Return within the steps that the adaptive policy needs"
    print_table(title, tree_gap.table_rows(results))
    print(printable(f"In {options.output_dir}: results.json, tree.png."))


def _triplets(options: argparse.Namespace) -> None:
    """Train the policies, write results and figure, and print the tables."""
    from ...synthetic.triplets import ARMS, MORE_ARMS, Settings
    from .triplet_runs import triplet_rows, triplets

    results = triplets(
        options.output_dir,
        seeds=options.seeds,
        settings=Settings(iterations=options.iterations or Settings.iterations),
        arms=ARMS | MORE_ARMS if options.more_arms else ARMS,
    )
    settings = results["settings"]
    print_table(
        f"Accuracy after {settings['iterations']} iterations, {settings['seeds']} seed(s), "
        f"{settings['completions']} completions per prompt",
        triplet_rows(results),
    )
    exact = results["references"].items()
    print_table("Exact", [{"policy": name, "value": f"{value:.4g}"} for name, value in exact])
    seconds, files = f"{results['seconds']:.0f} s", "triplets.png, results.json"
    print(printable(f"{seconds}. In {options.output_dir}: {files}."))


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="barl reproduce",
        description="Runs the paper's didactic example, the decision tree of its Theorem 3, and "
        "its experiments. docs/paper.md has the results.",
    )
    commands = parser.add_subparsers(dest="example", required=True, metavar="EXAMPLE")
    triplets_help = "train policies on the didactic example, with RL and with BARL (minutes)"
    triplets = commands.add_parser("triplets", help=triplets_help, description=triplets_help)
    triplets.add_argument("--seeds", type=at_least_one, default=3, help="seeds per arm")
    triplets.add_argument(
        "--iterations",
        type=at_least_one,
        help="training iterations (default: as many as in docs/triplets.md)",
    )
    triplets.add_argument(
        "--more_arms",
        action="store_true",
        help="add RL with BARL's entropy bonus, and the paper's text read literally",
    )
    triplets.add_argument("--output_dir", type=Path, default=Path("outputs/triplets"), help=_FOLDER)
    triplets.set_defaults(run=_triplets)
    tree_help = "solve the tree of Theorem 3 exactly, for depth 2 to 6 (seconds)"
    tree = commands.add_parser("tree", help=tree_help, description=tree_help)
    tree.add_argument("--output_dir", type=Path, default=Path("outputs/tree"), help=_FOLDER)
    tree.set_defaults(run=_tree)
    paper_help = "train and evaluate all arms, and write a report (demo scale: within an hour)"
    paper = commands.add_parser("paper", help=paper_help, description=paper_help)
    paper.add_argument(
        "--scale",
        choices=("demo", "paper"),
        default="demo",
        help="demo: search problems and a tiny model, on a CPU; paper: the paper's models and "
        "data, on GPUs",
    )
    paper.add_argument("--seeds", type=at_least_one, default=3, help="seeds per arm")
    paper.add_argument("--plan", action="store_true", help="print the commands, and run nothing")
    paper.add_argument("--output_dir", type=Path, default=Path("outputs/paper"), help=_FOLDER)
    paper.set_defaults(run=_paper)
    return parser
