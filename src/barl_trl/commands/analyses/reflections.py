"""`barl analyze reflections`: how often responses reflect, by the difficulty of the problem."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from ...evaluation.reflections import KEYWORDS, reflections_by_difficulty
from ...evaluation.responses import read_responses
from ...report.json_files import read_text
from ..console import refuse_overwriting
from ..parsers import printable
from .common import Rows, add_model_options, fewest_samples, named, show, write


def reflections(
    output_dir: Path,
    *,
    sampled: dict[str, Path],
    benchmarks: Sequence[str] | None = None,
    keywords: Sequence[str] = KEYWORDS,
    num_samples: int | None = None,
) -> Rows:
    """Count how often responses reflect, by the difficulty of the problem.

    Writes `reflections.json` and `reflections.png`.

    Args:
        output_dir: Folder for the files.
        sampled: Folder of each model's samples, by the model's name in the figure.
        benchmarks: Which to read. `None`: all.
        keywords: As in [`reflections_by_difficulty`].
        num_samples: As there. `None`: as many as every problem has.

    Returns:
        The `rows` of `reflections.json`.

    Raises:
        ValueError: A file is missing, or there are more benchmarks than one figure holds.
    """
    from ...report import reflection_figure

    rows = []
    samples_of = {name: read_responses(folder, benchmarks) for name, folder in sampled.items()}
    if num_samples is None:
        num_samples = fewest_samples(found for of in samples_of.values() for found in of.values())
    for name, samples in samples_of.items():
        for benchmark, problems in samples.items():
            levels = reflections_by_difficulty(problems, keywords=keywords, num_samples=num_samples)
            rows += [{"benchmark": benchmark, "model": name, **lv._asdict()} for lv in levels]
    settings = {"num_samples": num_samples, "keywords": list(keywords)}
    path = write(output_dir / "reflections.json", settings, rows)
    reflection_figure.draw(path, output_dir / "reflections.png")
    return rows


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the analysis's own options."""
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


def run(options: argparse.Namespace) -> None:
    """Run the analysis and show its table."""
    keywords = KEYWORDS
    if options.keywords:
        files = [options.output_dir / f"reflections.{kind}" for kind in ("json", "png")]
        refuse_overwriting(files, [options.keywords])
        keywords = [line.strip() for line in read_text(options.keywords).splitlines()]
    rows = reflections(
        options.output_dir,
        sampled=named(options.names, options.sampled),
        benchmarks=options.benchmarks,
        keywords=[keyword for keyword in keywords if keyword],
        num_samples=options.num_samples,
    )
    of = max(row["difficulty"] for row in rows)
    title = f"Problems with a reflection, by wrong responses of {of}"
    show(title, rows, None, _cells)
    print(printable(f"In {options.output_dir}: reflections.png, reflections.json."))


def _cells(rows: Rows) -> dict[str, str]:
    return {
        str(row["difficulty"]): f"{100 * row['frequency']:.0f} %\nof {row['num_problems']:,}"
        if row["num_problems"]
        else "–"
        for row in rows
    }
