"""`python -m experiments.credit`: trainings that differ in the credit alone, and their report."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..tools import FileJob, paired, read_json, run_jobs, table, with_error
from . import explorer, trainings
from .arms import ARMS, file_name
from .simulation import WORLDS

EXPLORED = tuple(arm for arm in ARMS if arm != "rloo")


class Part(NamedTuple):
    """A part of the evidence.

    Attributes:
        title: Title of its section.
        seeds: Seeds of each arm by default.
        arms: Arms that are trained.
        condition: What they are trained on; None: the explorer, in each of its worlds.
    """

    title: str
    seeds: int
    arms: tuple[str, ...]
    condition: str | None = None


THREE = ("grpo", "barl", "belief_critic")
PARTS = {
    "B": Part("An explorer with six parameters", 20, EXPLORED),
    "C": Part(
        "Cut off in training", 8, (*THREE, "progress", "belief_critic, no bootstrap"), "cut_off"
    ),
    "D": Part("Few problems, many epochs", 8, THREE, "memorisation"),
    "E": Part("The demo's task", 20, THREE, "standard"),
}
"""The parts by letter, as in docs/evidence.md. Part A, gradients on the demo's model, was removed
with its code after the commit f1a696a."""


def jobs(folder: Path, part: Part, seeds: int) -> Iterator[FileJob]:
    """Yield the trainings of a part."""
    if part.condition is None:
        for world in WORLDS:
            for arm in part.arms:
                path = folder / world / f"{file_name(arm)}-{seeds}.json"
                yield FileJob(path, explorer.run_into, (world, arm, seeds))
    else:
        for seed in range(seeds):
            for arm in part.arms:
                path = folder / f"{file_name(arm)}-{seed}.json"
                yield FileJob(path, trainings.run_into, (part.condition, arm, seed))


def explorer_tables(folder: Path, part: Part, seeds: int) -> Iterator[str]:
    """Yield a table for each world."""
    measures = {
        "accuracy over training": "mean_accuracy",
        "at the end": "accuracy",
        "at the end, long budget": "longer_accuracy",
    }
    for world in WORLDS:
        found = {
            arm: read_json(folder / world / f"{file_name(arm)}-{seeds}.json") for arm in part.arms
        }
        rows = _rows({arm: one["runs"] for arm, one in found.items()}, measures)
        for row, one in zip(rows, found.values(), strict=True):
            row[1:1] = [f"{one['bias']:.2f}", with_error(one["quality"], 2)]
        yield f"**{world}**"
        yield table(["credit", "bias", "quality", *_columns(measures)], rows)


def training_tables(folder: Path, part: Part, seeds: int) -> Iterator[str]:
    """Yield a table of all tests."""
    tests = trainings.CONDITIONS[part.condition or ""].tests
    measures = {f"{n} candidates, {tokens} tokens": name for name, (n, tokens) in tests.items()}
    runs = {
        arm: [read_json(folder / f"{file_name(arm)}-{seed}.json") for seed in range(seeds)]
        for arm in part.arms
    }
    rows = _rows(runs, measures)
    for row, of_arm in zip(rows, runs.values(), strict=True):
        row.append(with_error([run["accuracy/tokens"] for run in of_arm], 0))
    yield table(["credit", *_columns(measures), "tokens"], rows)


def _columns(measures: dict[str, str]) -> list[str]:
    return [cell for name in measures for cell in (name, "difference to GRPO")]


def _rows(runs: dict[str, list[dict[str, float]]], measures: dict[str, str]) -> list[list[str]]:
    """Return accuracies in % ± standard error, and differences paired by seed with intervals."""

    def percent(arm: str, name: str) -> list[float]:
        return [100 * run[name] for run in runs[arm]]

    rows = []
    for arm in runs:
        rows.append([arm])
        for name in measures.values():
            difference = paired(percent(arm, name), percent("grpo", name))
            rows[-1] += [
                with_error(percent(arm, name), 1),
                "" if arm == "grpo" else str(difference),
            ]
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Run the trainings whose files are missing, and write the report."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.credit", description="Compares the credits of steps."
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    parser.add_argument("--seeds", type=int, help="seeds of each arm (default: 8 to 20, by part)")
    parser.add_argument("--output_dir", type=Path, default=Path("outputs/credit"))
    options = parser.parse_args(argv)
    blocks: list[str] = ["# What the weights of steps do"]
    for letter in options.parts:
        part: Part = PARTS[letter]
        seeds: int = options.seeds or part.seeds
        run_jobs(part.title, [*jobs(options.output_dir / letter, part, seeds)])
        tables: Callable[..., Any] = training_tables if part.condition else explorer_tables
        blocks.append(f"## {letter}. {part.title}, {seeds} seeds")
        blocks += tables(options.output_dir / letter, part, seeds)
    page = options.output_dir / "report.md"
    page.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    print(f"In {options.output_dir}: {page.name}, and each training's file.")


if __name__ == "__main__":
    main()
