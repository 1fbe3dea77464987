"""`barl analyze efficiency`: pass@k against tokens."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from ...evaluation.responses import read_responses
from ...evaluation.token_efficiency import efficiency_curve
from ..parsers import printable
from .common import Rows, add_model_options, as_many, fewest_samples, named, show, write


def efficiency(
    output_dir: Path,
    *,
    sampled: dict[str, Path],
    greedy: dict[str, Path] | None = None,
    benchmarks: Sequence[str] | None = None,
    max_k: int | None = None,
) -> Rows:
    """Compute pass@k against the total tokens of the k responses.

    Writes `efficiency.json`, `efficiency_sampled.png` and, with `greedy`, `efficiency.png`, where
    the greedy response is one of the k.

    Args:
        output_dir: Folder for the files.
        sampled: Folder of each model's samples, by the model's name in the figure.
        greedy: Folder of each model's greedy responses.
        benchmarks: Which to read. `None`: all.
        max_k: Largest k. `None`: as many samples as every problem has.

    Returns:
        The `rows` of `efficiency.json`.
    """
    from ...report import efficiency_figure

    rows = []
    samples_of = {name: read_responses(folder, benchmarks) for name, folder in sampled.items()}
    if max_k is None:
        max_k = fewest_samples(found for of in samples_of.values() for found in of.values())
    for name, samples in samples_of.items():
        firsts = read_responses(greedy[name], samples) if greedy else {}
        for benchmark, problems in samples.items():
            for first in [firsts[benchmark], None] if greedy else [None]:
                rows += [
                    {
                        "benchmark": benchmark,
                        "model": name,
                        "with_greedy": first is not None,
                        **point._asdict(),
                        "num_problems": len(problems),
                    }
                    for point in efficiency_curve(problems, first, max_k=max_k)
                ]
    path = write(output_dir / "efficiency.json", {"max_k": max_k}, rows)
    if greedy:
        efficiency_figure.draw(path, output_dir / "efficiency.png", with_greedy=True)
    efficiency_figure.draw(path, output_dir / "efficiency_sampled.png", with_greedy=False)
    return rows


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the analysis's own options."""
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


def run(options: argparse.Namespace) -> None:
    """Run the analysis and show its table."""
    sampled = named(options.names, options.sampled)
    greedy = options.greedy and dict(
        zip(sampled, as_many("--greedy", options.greedy, sampled), strict=True)
    )
    rows = efficiency(
        options.output_dir,
        sampled=sampled,
        greedy=greedy,
        benchmarks=options.benchmarks,
        max_k=options.max_k,
    )
    show("Token efficiency", rows, "with_greedy", _cells)
    figures = "efficiency.png, efficiency_sampled.png" if greedy else "efficiency_sampled.png"
    print(printable(f"In {options.output_dir}: {figures}, efficiency.json (all k)."))


def _cells(rows: Rows) -> dict[str, str]:
    cells = {"greedy": "one" if rows[0]["with_greedy"] else "none"}
    for row in (rows[0], rows[-1]):
        error = row["standard_error"]
        spread = "" if error is None else f" ± {100 * error:.1f}"
        text = f"{100 * row['accuracy']:.1f}{spread} ({row['tokens']:,.0f})"
        cells[f"pass@{row['k']}, % (tokens)"] = text
    return cells
