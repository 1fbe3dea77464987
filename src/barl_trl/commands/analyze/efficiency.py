"""`barl analyze efficiency`: pass@k against the total tokens of the k responses."""

import argparse
from pathlib import Path

from ...evaluation.responses import read_responses
from ...evaluation.statistics.token_efficiency import efficiency_curve
from ..shell.parsers import printable
from .common import Rows, add_model_options, as_many, fewest_samples, read_models, show, write


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the analysis's own options."""
    command.set_defaults(run=_run)
    add_model_options(command)
    sampled = "samples (temperature 1) of each model: a folder that `barl evaluate` wrote"
    command.add_argument(
        "--sampled", nargs="+", type=Path, required=True, metavar="DIR", help=sampled
    )
    greedy = "greedy responses of the same models, in the same order; they give a second figure"
    command.add_argument("--greedy", nargs="+", type=Path, metavar="DIR", help=greedy)
    command.add_argument(
        "--max_k", type=int, help="largest k (default: as many as every problem has samples)"
    )


def _run(options: argparse.Namespace) -> None:
    """Write `efficiency.json` and `efficiency_sampled.png`, and show a table.

    With greedy responses there is also `efficiency.png`, where one of the k is greedy.
    """
    from ...report.figures.analysis_figures import draw_efficiency

    folders = options.greedy and as_many("--greedy", options.greedy, options.sampled)
    samples_of = read_models(options, options.sampled)
    max_k = fewest_samples(samples_of) if options.max_k is None else options.max_k
    rows: Rows = []
    for n, (name, samples) in enumerate(samples_of.items()):
        firsts = read_responses(folders[n], samples) if folders else {}
        for benchmark, problems in samples.items():
            fewest = min(map(len, problems.values()))
            for first in [firsts[benchmark], None] if folders else [None]:
                most = min(max_k, fewest) if folders and first is None else max_k
                rows += [
                    {
                        "benchmark": benchmark,
                        "model": name,
                        "with_greedy": first is not None,
                        **point._asdict(),
                        "num_problems": len(problems),
                    }
                    for point in efficiency_curve(problems, first, max_k=most)
                ]
    path = write(options.output_dir / "efficiency.json", {"max_k": max_k}, rows)
    figures = {"efficiency.png": True} if folders else {}
    figures |= {"efficiency_sampled.png": False}
    for figure, with_greedy in figures.items():
        draw_efficiency(path, options.output_dir / figure, with_greedy=with_greedy)
    show("Token efficiency", rows, "with_greedy", _cells)
    print(printable(f"In {options.output_dir}: {', '.join(figures)}, efficiency.json (all k)."))


def _cells(rows: Rows) -> dict[str, str]:
    cells = {"greedy": "one" if rows[0]["with_greedy"] else "none"}
    for row in (rows[0], rows[-1]):
        error = row["standard_error"]
        spread = "" if error is None else f" ± {100 * error:.1f}"
        text = f"{100 * row['accuracy']:.1f}{spread} ({row['tokens']:,.0f})"
        cells[f"pass@{row['k']}, % (tokens)"] = text
    return cells
