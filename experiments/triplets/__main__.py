"""`python -m experiments.triplets`: the paper's didactic example with a language model."""

from pathlib import Path

from barl_trl.commands.reproduce.triplet_runs import triplet_rows
from barl_trl.commands.shell.console import at_least_one, print_table, progress_bar
from barl_trl.commands.shell.jobs import FileJob, run_jobs
from barl_trl.commands.shell.parsers import OneLineParser
from barl_trl.report.json_files import read_json

from ..entry import ended_in_one_line
from .training import ARMS, Scale, run_into

PROG = "python -m experiments.triplets"
QUICK = Scale(batches=2, num_generations=8, evaluate_every=1, completions=5)
"""For a test; nothing is learned."""


def main(argv: list[str] | None = None) -> None:
    """Train every arm with every seed whose file is missing, and print the final accuracies."""
    text = "Trains a tiny language model on the paper's didactic example, with BARL and with RL."
    parser = OneLineParser(prog=PROG, description=text)
    parser.add_argument("--seeds", type=at_least_one, default=3, help="seeds per arm (default: 3)")
    parser.add_argument("--quick", action="store_true", help="two small batches per run")
    parser.add_argument(
        "--output_dir", type=Path, default=Path("outputs/triplets-lm"), help="folder of the runs"
    )
    options = parser.parse_args(argv)
    scale = QUICK if options.quick else Scale()
    folder = options.output_dir / ("quick" if options.quick else "runs")
    jobs = [
        FileJob(folder / f"{name}-{seed}.json", run_into, (name, seed, scale))
        for name in ARMS
        for seed in range(options.seeds)
    ]
    with ended_in_one_line(PROG):
        with progress_bar() as progress:
            task = progress.add_task("training", total=len(jobs))
            run_jobs(jobs, lambda: progress.advance(task))
        records = [
            {**record, "iteration": record["batches"]}
            for job in jobs
            for record in read_json(job.path)
        ]
    titles = {name: {"title": arm.title} for name, arm in ARMS.items()}
    rows = triplet_rows({"arms": titles, "records": records})
    print_table(f"Accuracies after {scale.batches} batches", rows)


if __name__ == "__main__":
    main()
