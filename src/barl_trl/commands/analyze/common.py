"""What the analyses share: named folders, results as rows, tables."""

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...evaluation.responses import ResponsesByProblem, read_responses
from ...graders.extraction import EXTRACTIONS
from ...report.json_files import write_json
from ...trainer.config import help_of
from ..shell.console import print_table

Rows = list[dict[str, Any]]


def add_model_options(command: argparse.ArgumentParser) -> None:
    """Add the options of analyses that compare models on benchmarks."""
    command.add_argument(
        "--names",
        nargs="+",
        metavar="NAME",
        help="names of the models (default: those of the folders)",
    )
    command.add_argument(
        "--benchmarks",
        type=lambda text: text.split(","),
        help="benchmarks, separated by commas (default: all)",
    )


def add_grader_options(command: argparse.ArgumentParser) -> None:
    """Add the options that say how answers are read."""
    text = "grader that reads and merges the answers"
    command.add_argument("--grader", default="math_verify", help=text)
    text = help_of("extraction")
    command.add_argument("--extraction", choices=EXTRACTIONS, default="boxed", help=text)


def write(path: Path, settings: dict[str, Any], rows: Rows) -> Path:
    """Write results as JSON: what they were made with, and the rows that the figures draw."""
    write_json(path, {"settings": settings, "rows": rows})
    return path


def read_models(
    options: argparse.Namespace, folders: Sequence[Path]
) -> dict[str, dict[str, ResponsesByProblem]]:
    """Return the responses of each model to each benchmark, as `--names` and `--benchmarks` say."""
    by_name = named(options.names, folders)
    return {name: read_responses(folder, options.benchmarks) for name, folder in by_name.items()}


def named(names: Sequence[str] | None, folders: Sequence[Path]) -> dict[str, Path]:
    """Return folders by the name of their model; by default it is the name of the folder.

    Raises:
        ValueError: There are not as many names as folders, or two are the same.
    """
    names = as_many("--names", names or [folder.resolve().name for folder in folders], folders)
    if len(set(names)) < len(names):
        raise ValueError(f"--names must differ, got {', '.join(names)}: name each model.")
    return dict(zip(names, folders, strict=True))


def arm_and_folder(text: str) -> tuple[str, str]:
    """Split `ARM=FOLDER`; the arm is empty if there is none, or a folder has the whole name."""
    arm, equals, folder = text.partition("=")
    return (arm, folder) if equals and not Path(text).exists() else ("", text)


def refuse_repeated(arms: Mapping[str, Sequence[Path]]) -> None:
    """Refuse a folder that an arm has twice: it would count as two seeds."""
    for arm, folders in arms.items():
        [(place, number)] = Counter(folder.resolve() for folder in folders).most_common(1)
        if number > 1:
            raise ValueError(f"each seed of {arm} must be given once, got {place} {number} times.")


def fewest_samples(models: Mapping[str, Mapping[str, ResponsesByProblem]]) -> int:
    """Return the smallest number of responses to a problem, over all models and benchmarks."""
    benchmarks = (problems for of_model in models.values() for problems in of_model.values())
    return min(len(responses) for problems in benchmarks for responses in problems.values())


def as_many(option: str, arguments: Sequence, folders: Sequence) -> Sequence:
    """Return the values of an option, checked to be one for each folder.

    Raises:
        ValueError: There are more, or fewer.
    """
    if len(arguments) != len(folders):
        raise ValueError(
            f"{option} must be given once for each of the {len(folders)} folders, got "
            f"{len(arguments)}."
        )
    return arguments


def show(title: str, rows: Rows, by: str | None, cells: Callable[[Rows], dict[str, str]]) -> None:
    """Print a line for the rows of each benchmark, model and value of `by`.

    Args:
        title: Title of the table.
        rows: At least one row.
        by: Field of a row that tells the lines of a model apart; None: a model has one line.
        cells: Maps the rows of a line to its further cells, by column.
    """
    groups: dict[tuple, Rows] = {}
    for row in rows:
        place = row["benchmark"], row["model"], by and row[by]
        groups.setdefault(place, []).append(row)
    benchmarks = list(dict.fromkeys(row["benchmark"] for row in rows))
    lines = [
        {"benchmark": benchmark, "model": model, **cells(groups[benchmark, model, value])}
        for benchmark, model, value in sorted(groups, key=lambda key: benchmarks.index(key[0]))
    ]
    print_table(title, lines)
