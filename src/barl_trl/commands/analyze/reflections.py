"""`barl analyze reflections`: how often responses reflect, by the difficulty of the problem."""

import argparse
from pathlib import Path

from ...evaluation.statistics.reflections import KEYWORDS, reflections_by_difficulty
from ...report.json_files import read_text
from ..shell.console import refuse_overwriting
from ..shell.parsers import printable
from .common import Rows, add_model_options, fewest_samples, read_models, show, write


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the analysis's own options."""
    command.set_defaults(run=_run)
    add_model_options(command)
    command.add_argument(
        "sampled",
        nargs="+",
        type=Path,
        metavar="DIR",
        help="samples of each model: a folder that `barl evaluate` wrote",
    )
    command.add_argument(
        "--keywords",
        type=Path,
        metavar="FILE",
        help="keywords that show a reflection, one per line (default: those of docs/analysis.md)",
    )
    text = "responses per problem that count (default: as many as every problem has; the paper: 6)"
    command.add_argument("--num_samples", type=int, help=text)


def _run(options: argparse.Namespace) -> None:
    """Write `reflections.json` and `reflections.png`, and show a table."""
    from ...report.figures.analysis_figures import draw_reflections

    keywords, outputs = list(KEYWORDS), ("reflections.json", "reflections.png")
    if options.keywords:
        refuse_overwriting([options.output_dir / name for name in outputs], [options.keywords])
        lines = map(str.strip, read_text(options.keywords).splitlines())
        keywords = [line for line in lines if line]
    samples_of = read_models(options, options.sampled)
    number = fewest_samples(samples_of) if options.num_samples is None else options.num_samples
    rows = [
        {"benchmark": benchmark, "model": name, **level._asdict()}
        for name, samples in samples_of.items()
        for benchmark, problems in samples.items()
        for level in reflections_by_difficulty(problems, keywords=keywords, num_samples=number)
    ]
    settings = {"num_samples": number, "keywords": keywords}
    path = write(options.output_dir / "reflections.json", settings, rows)
    draw_reflections(path, options.output_dir / "reflections.png")
    show(f"Problems with a reflection, by wrong responses of {number}", rows, None, _cells)
    print(printable(f"In {options.output_dir}: reflections.png, reflections.json."))


def _cells(rows: Rows) -> dict[str, str]:
    return {
        str(row["difficulty"]): f"{100 * row['frequency']:.0f} %\nof {row['num_problems']:,}"
        if row["num_problems"]
        else "–"
        for row in rows
    }
