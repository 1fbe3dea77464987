"""`python -m experiments.inquiry`: arms trained on the games of finding out, and their report."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from ..tools import collect, restore, run_jobs
from . import report
from .arms import ARMS
from .parts import (
    LONG_PARTS,
    PARTS,
    WEIGHTS,
    chosen_weight,
    recheck_jobs,
    reported_jobs,
    tuning_jobs,
    veto,
    veto_jobs,
)
from .training import Scale


def main(argv: list[str] | None = None) -> None:
    """Run the trainings whose files are missing, and write the report."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.inquiry",
        description="Compares credits where an agent must find out. See PLAN.md.",
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS], metavar="PART")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=[*ARMS], metavar="ARM")
    parser.add_argument("--seeds", type=int, default=10, help="seeds of each arm")
    parser.add_argument(
        "--quick", action="store_true", help="a few steps of each training, to see that all runs"
    )
    parser.add_argument("--tuning", action="store_true", help="no training but those that tune")
    parser.add_argument(
        "--veto",
        nargs="*",
        choices=WEIGHTS,
        metavar="ARM",
        help="no training but those that may veto an arm's information weight; default: what "
        "tuning chose",
    )
    parser.add_argument("--processes", type=int, help="trainings at a time; default: the cores")
    parser.add_argument(
        "--collect",
        type=Path,
        help="file that gets each training as a line; what has a line there is not run again",
    )
    parser.add_argument("--output_dir", type=Path, default=Path("outputs/inquiry"))
    options = parser.parse_args(argv)
    scale = Scale(steps=0.04, tests=16, final_tests=32, rollouts=16) if options.quick else Scale()
    # a file that exists is not made again: the two must not share a folder
    folder = options.output_dir / ("quick" if options.quick else "runs")
    if options.collect and options.collect.exists():
        restore(options.collect, folder)
    for name in options.parts if options.veto is None else ():
        part = PARTS[name]
        arms = [arm for arm in part.arms if arm in options.arms]
        if options.quick:
            part = part._replace(tuning_seeds=part.tuning_seeds[:1])
        tuning = tuning_jobs(folder, part, arms, scale)
        run_jobs(f"{part.title}, tuning", tuning, options.processes)
        if not options.tuning:
            jobs = [*reported_jobs(folder, part, arms, options.seeds, scale)]
            run_jobs(part.title, jobs, options.processes)
            if part.conditions == ("long",) and (again := recheck_jobs(folder, part, scale)):
                run_jobs(f"{part.title}, the best rival's other rate", again, options.processes)
                jobs = [*reported_jobs(folder, part, arms, options.seeds, scale)]
                run_jobs(part.title, jobs, options.processes)
    if options.veto is not None:
        run_veto(folder, options.veto, scale, options.processes)
    if options.collect:
        collect(folder, options.collect)
    print(f"In {folder}: {report.write(folder).name}, and each training's file.")


def run_veto(folder: Path, arms: Sequence[str], scale: Scale, processes: int | None) -> None:
    """Train what may veto the information weight of arms, and say what it says.

    Args:
        folder: Folder of the trainings.
        arms: The arms; none: the one that tuning chose.
        scale: How much is run.
        processes: Trainings at a time.
    """
    parts, tried = ([PARTS["number-long"]], arms) if arms else (LONG_PARTS, WEIGHTS)
    for part in parts:
        run_jobs(f"{part.title}, tuning", tuning_jobs(folder, part, tried, scale), processes)
    for arm in arms or [chosen_weight(folder)]:
        print(f"{arm}:")
        if arm == WEIGHTS[0]:
            continue  # it has no weight
        pair = [arm, WEIGHTS[0]]
        run_jobs(f"Veto of {arm}", veto_jobs(folder, pair, scale), processes)
        for condition, points in veto(folder, pair).items():
            print(f"  less {WEIGHTS[0]}, {condition}: {points:+.1f} points")


if __name__ == "__main__":
    main()
