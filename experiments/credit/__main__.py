"""`python -m experiments.credit`: an explorer trained with each credit, and what it reached."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..tools import FileJob, collect, paired, read_json, run_jobs, table, with_error
from . import explorer
from .arms import ARMS, file_name
from .simulation import WORLDS

COMPARED = tuple(arm for arm in ARMS if arm != "rloo")
MEASURES = {
    "accuracy over training": "mean_accuracy",
    "at the end": "accuracy",
    "at the end, long budget": "longer_accuracy",
}


def path_of(folder: Path, world: str, arm: str, seeds: int) -> Path:
    """Return the file of an arm's trainings in a world."""
    return folder / world / f"{file_name(arm)}-{seeds}.json"


def tables(folder: Path, seeds: int) -> Iterator[str]:
    """Yield a table for each world: in %, ± standard errors, differences paired by seed."""
    for world in WORLDS:
        found = {arm: read_json(path_of(folder, world, arm, seeds)) for arm in COMPARED}
        rows = []
        for arm, one in found.items():
            row = [arm, f"{one['bias']:.2f}", with_error(one["quality"], 2)]
            for name in MEASURES.values():
                own, plain = (
                    [100 * run[name] for run in of["runs"]] for of in (one, found["grpo"])
                )
                row += [with_error(own, 1), "" if arm == "grpo" else str(paired(own, plain))]
            rows.append(row)
        measures = (cell for name in MEASURES for cell in (name, "difference to GRPO"))
        yield f"## {world}"
        yield table(["credit", "bias", "quality", *measures], rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the trainings whose files are missing, and write the report."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.credit", description="Compares the credits of steps."
    )
    parser.add_argument("--seeds", type=int, default=20, help="seeds of each arm (default: 20)")
    parser.add_argument("--processes", type=int, help="trainings at a time (default: each core)")
    parser.add_argument("--output_dir", type=Path, default=Path("outputs/credit"))
    parser.add_argument("--collect", type=Path, help="write each file as a line of this one")
    options = parser.parse_args(argv)
    jobs = [
        FileJob(
            path_of(options.output_dir, world, arm, options.seeds),
            explorer.run_into,
            (world, arm, options.seeds),
        )
        for world in WORLDS
        for arm in COMPARED
    ]
    run_jobs("explorers", jobs, options.processes)
    if options.collect:
        collect(options.output_dir, options.collect)
    page = options.output_dir / "report.md"
    blocks = [f"# What the weights of steps do, {options.seeds} seeds"]
    blocks += tables(options.output_dir, options.seeds)
    page.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    print(f"In {options.output_dir}: {page.name}, and each training's file.")


if __name__ == "__main__":
    main()
