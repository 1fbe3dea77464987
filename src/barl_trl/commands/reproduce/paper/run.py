"""Run the experiments, and go on where a run was stopped."""

import os
import shlex
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import torch

from ....report.json_files import read_json
from ....trainer.resume import one_writer
from ...shell.console import print_note, progress_bar
from ...shell.jobs import run_jobs
from ...shell.parsers import printable
from .commands import DONE, stages
from .report import report
from .scales import Scale, demo_scale, paper_scale


def main(name: str, folder: Path, seeds: Sequence[int], *, is_plan: bool) -> None:
    """Run the commands of a scale, or print them.

    Raises:
        ValueError: The folder has files, but not of this command; or the scale is the paper's, and
            there is no GPU.
    """
    if name == "paper" and not is_plan and not torch.accelerator.is_available():
        raise ValueError(
            "--scale must be demo on a machine without GPUs, got paper: --plan prints its commands."
        )
    _refuse_files_of_others(folder)
    scale = paper_scale() if name == "paper" else demo_scale(folder)
    if name == "demo":  # whose problems are written by now
        (folder / DONE).mkdir(exist_ok=True)
    if is_plan:
        for command in chain.from_iterable(stages(scale, folder, seeds)):
            print(printable(shlex.join(command.argv)))
        return
    run(scale, folder, seeds)


def _refuse_files_of_others(folder: Path) -> None:
    """Refuse a folder with files in which this command never began."""
    others = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if others and DONE not in others:
        raise ValueError(
            f"output_dir must be new, or have what this command wrote, got {folder} with "
            f"{others[0]}: name another."
        )


def run(scale: Scale, folder: Path, seeds: Sequence[int]) -> None:
    """Run what is not done, and write the report; a RuntimeError has the output of a failure."""
    threads = max(1, (os.cpu_count() or 1) // scale.at_once)
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    all_stages = [
        [command.job(folder, environment) for command in commands]
        for commands in stages(scale, folder, seeds)
    ]
    jobs = [*chain.from_iterable(all_stages)]
    (folder / DONE).mkdir(parents=True, exist_ok=True)
    with one_writer(folder):
        with progress_bar() as progress:
            task = progress.add_task("reproduce paper", total=len(jobs))
            for stage in all_stages:
                run_jobs(stage, lambda: progress.advance(task), at_once=scale.at_once)
        page = report(scale, folder, seeds, sum(read_json(job.path)["seconds"] for job in jobs))
    print_note(f"In {folder}: {page.name}, report.md; runs, responses, figures and logs.")
