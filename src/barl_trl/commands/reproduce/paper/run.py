"""Run the experiments, and go on where a run was stopped."""

import json
import os
import shlex
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from ....report.json_files import read_json, write_json
from ....trainer.checkpoints.output_folder import one_writer
from ...shell.console import print_note, progress_bar
from ...shell.jobs import run_jobs
from ...shell.parsers import printable
from .commands import stages
from .cost import print_cost
from .report import report
from .scales import Scale, demo_scale, paper_scale, refuse_machine

_DEMO_STEPS = 80
SETTINGS = ("models", "benchmarks", "launcher", "train", "evaluate", "arm_options")
"""Fields of a scale that must not change in a folder."""


def refuse_other_settings(scale: Scale, folder: Path) -> None:
    """Refuse a folder of another experiment: its checkpoints would be resumed.

    Raises:
        ValueError: It has results of other settings. Only the number of seeds may change.
    """
    file = folder / "settings.json"
    settings = json.loads(json.dumps({name: getattr(scale, name) for name in SETTINGS}))
    earlier = read_json(file) if file.exists() else settings
    for name in SETTINGS:
        if earlier.get(name) != settings[name]:
            raise ValueError(
                f"output_dir must hold results of the same settings, got {folder} with {name} "
                f"{earlier.get(name)}, where it is now {settings[name]}: choose another folder."
            )
    folder.mkdir(parents=True, exist_ok=True)
    write_json(file, settings)


def run(scale: Scale, folder: Path, seeds: Sequence[int]) -> None:
    """Run what is not done, and write the report.

    Raises:
        RuntimeError: A command failed.
        ValueError: The folder has results of other settings, or another process writes into it.
    """
    refuse_other_settings(scale, folder)
    with one_writer(folder):
        _run(scale, folder, seeds)


def _run(scale: Scale, folder: Path, seeds: Sequence[int]) -> None:
    threads = max(1, (os.cpu_count() or 1) // scale.at_once)
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    all_stages = [
        [command.job(folder, environment) for command in commands]
        for commands in stages(scale, folder, seeds)
    ]
    jobs = [*chain.from_iterable(all_stages)]
    with progress_bar() as progress:
        task = progress.add_task("reproduce paper", total=len(jobs))
        for stage in all_stages:
            run_jobs(stage, lambda: progress.advance(task), at_once=scale.at_once)
    page = report(scale, folder, seeds, sum(read_json(job.path)["seconds"] for job in jobs))
    print_note(f"In {folder}: {page.name}, report.md; runs, responses, figures and logs.")


def main(name: str, folder: Path, seeds: Sequence[int], *, is_plan: bool) -> None:
    """Print the cost at the paper's scale, then the commands, or run them.

    Raises:
        RuntimeError: A command failed.
        ValueError: This machine cannot run them, or the folder has results of other settings.
    """
    scale = paper_scale() if name == "paper" else demo_scale(folder, _DEMO_STEPS)
    if name == "paper":
        print_cost(scale, seeds)
    if is_plan:
        for command in chain.from_iterable(stages(scale, folder, seeds)):
            print(printable(shlex.join(command.argv)))
        return
    if name == "paper":
        refuse_machine()
    run(scale, folder, seeds)
