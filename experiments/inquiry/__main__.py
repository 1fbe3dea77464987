"""`python -m experiments.inquiry`: arms trained on the games of finding out, and their report."""

from pathlib import Path

from barl_trl.commands.shell.console import at_least_one, progress_bar
from barl_trl.commands.shell.jobs import run_jobs
from barl_trl.commands.shell.parsers import OneLineParser, printable

from ..entry import ended_in_one_line
from . import report
from .arms import ARMS
from .parts import PARTS, reported_jobs, tuning_jobs
from .training import Scale

PROG = "python -m experiments.inquiry"


def main(argv: list[str] | None = None) -> None:
    """Run the trainings whose files are missing, and write the report."""
    parser = OneLineParser(
        prog=PROG, description="Compares credits where an agent must find out. See PLAN.md."
    )
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=PARTS,
        default=[*PARTS],
        metavar="PART",
        help=f"of {', '.join(PARTS)} (default: all)",
    )
    parser.add_argument(
        "--arms", nargs="+", choices=ARMS, default=[*ARMS], metavar="ARM", help="only these"
    )
    parser.add_argument("--seeds", type=at_least_one, default=10, help="seeds of each arm")
    parser.add_argument(
        "--quick", action="store_true", help="a few steps of each training, to see that all runs"
    )
    parser.add_argument("--output_dir", type=Path, default=Path("outputs/inquiry"))
    options = parser.parse_args(argv)
    quick = Scale(steps=0.04, tests=16, final_tests=32, rollouts=16)
    scale = quick if options.quick else Scale()
    # a file that exists is not made again: the two must not share a folder
    folder = options.output_dir / ("quick" if options.quick else "runs")
    with ended_in_one_line(PROG), progress_bar(width=32) as progress:
        for name in options.parts:
            part = PARTS[name]
            arms = [arm for arm in part.arms if arm in options.arms]
            jobs = tuning_jobs(folder, part, arms, scale)
            task = progress.add_task(f"{part.title}: tuning", total=len(jobs))
            run_jobs(jobs, lambda task=task: progress.advance(task))
            jobs = [*reported_jobs(folder, part, arms, options.seeds, scale)]
            task = progress.add_task(part.title, total=len(jobs))
            run_jobs(jobs, lambda task=task: progress.advance(task))
        page = report.write(folder)
    print(printable(f"In {folder}: {page.name}, and each training's file."))


if __name__ == "__main__":
    main()
