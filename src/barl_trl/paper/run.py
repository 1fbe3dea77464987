"""Runs the experiments, goes on where a run was stopped, and reports."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..evaluation.metrics import mean_and_standard_error
from ..report.paper_report import write_report
from .commands import BASE, Command, analyses, lanes, run_folder
from .cost import show_cost
from .scales import Model, Scale, demo_scale, paper_scale

DEMO_STEPS = 80

FIGURES = {
    "efficiency": (
        "token efficiency",
        "Pass@k against the mean total tokens of k = 1 … 6 responses, the greedy one among them.",
    ),
    "efficiency_sampled": ("token efficiency of samples", "The same without the greedy response."),
    "reflections": (
        "reflections",
        "Share of problems with a reflection in any of 6 responses, by the number of wrong ones.",
    ),
    "bayesian_values": (
        "Bayesian values",
        "Bayesian state-action values along greedy responses, under each model's own beliefs, "
        "which are updated at every step.",
    ),
    "posterior_weighted_values": (
        "posterior-weighted values",
        "The values that weigh the policy gradient, on the same responses: the belief is frozen.",
    ),
    "curves": (
        "training",
        "Accuracy and length over training: mean and standard error over seeds.",
    ),
}
"""Of every model: file of `barl analyze` -> title and caption."""


class Book:
    """What is done, in a file that outlives the process; and the output of every command."""

    def __init__(self, folder: Path, num_threads: int):
        self.environment = os.environ | {"OMP_NUM_THREADS": str(num_threads)}
        self.folder, self.file = folder, folder / "done.txt"
        self.done = set(self.file.read_text().splitlines()) if self.file.exists() else set()

    def run(self, command: Command) -> None:
        """Runs a command unless it is done.

        Raises:
            RuntimeError: It failed: the message has the end of its output.
        """
        if command.name in self.done:
            return
        log = self.folder / "logs" / f"{command.name.replace(' ', '-')}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as output:
            process = subprocess.run(
                command.argv, stdout=output, stderr=subprocess.STDOUT, env=self.environment
            )
        if process.returncode:
            end = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
            raise RuntimeError(f"{command.name} failed, see {log}:\n{end}")
        with self.file.open("a") as file:
            file.write(f"{command.name}\n")


def accuracies(folder: Path, scale: Scale, model: Model, arm: str, seeds) -> dict[str, Any]:
    """A row of the table: greedy accuracy in %, mean and standard error over seeds."""
    runs = [None] if arm == BASE else seeds
    results = [
        json.loads((run_folder(folder, model.name, arm, s) / "greedy" / "results.json").read_text())
        for s in runs
    ]
    shares = {
        name: [100 * result["benchmarks"][name]["accuracy"] for result in results]
        for name in scale.benchmarks
    }
    shares["average"] = [fmean(row) for row in zip(*shares.values(), strict=True)]
    name = arm if len(scale.models) == 1 else f"{model.name}, {arm}"
    return {"arm": name} | {
        benchmark: [number for number in mean_and_standard_error(values) if number is not None]
        for benchmark, values in shares.items()
    }


def report(scale: Scale, folder: Path, seeds: Sequence[int], seconds: float) -> Path:
    """Writes `report.json`, `report.html`, `report.md`; returns the page."""
    figures = [
        {
            "title": f"{model.name}: {title}",
            "caption": caption,
            "file": f"figures/{model.name}/{name}.png",
        }
        for model in scale.models
        for name, (title, caption) in FIGURES.items()
    ]
    packages = ("barl-trl", "torch", "transformers", "trl")
    content = {
        "title": "BARL and its baselines",
        "summary": "All arms start from the same model and train on the same data, seed by seed in "
        "the same order.",
        "seeds": list(seeds),
        "benchmarks": list(scale.benchmarks),
        "benchmarks_note": scale.notes,
        "table": [
            accuracies(folder, scale, model, arm, seeds)
            for model in scale.models
            for arm in (BASE, *model.arms)
        ],
        "figures": figures,
        "not_run": scale.not_run,
        "settings": {
            "recipes": ", ".join(f"recipes/{model.recipe}.yaml" for model in scale.models),
            "options of barl train": shlex.join(scale.train),
            "options of barl evaluate": shlex.join(scale.evaluate),
            "figures are of seed": seeds[0],
            "versions": ", ".join(f"{name} {version(name)}" for name in packages),
            "machine": f"{os.cpu_count()} CPU cores, {torch.accelerator.device_count()} devices",
            "this run took": f"{seconds / 60:.0f} minutes",
        },
    }
    (folder / "report.json").write_text(json.dumps(content, indent=1))
    return write_report(folder / "report.json")[0]


def run(scale: Scale, folder: Path, seeds: Sequence[int], console: Console) -> None:
    """Runs what is not done, and writes the report.

    Raises:
        RuntimeError: A command failed.
    """
    started = time.perf_counter()
    book = Book(folder, num_threads=max(1, (os.cpu_count() or 1) // scale.at_once))
    all_lanes = list(lanes(scale, folder, seeds))
    figures = list(analyses(scale, folder, seeds))
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        total = sum(map(len, all_lanes)) + len(figures)
        task = progress.add_task("reproduce paper", total=total)

        def follow(commands: Sequence[Command]) -> None:
            for command in commands:
                book.run(command)
                progress.advance(task)

        with ThreadPoolExecutor(scale.at_once) as pool:
            for done in [pool.submit(follow, lane) for lane in all_lanes]:
                done.result()
        follow(figures)
    page = report(scale, folder, seeds, time.perf_counter() - started)
    console.print(f"In {folder}: {page.name}, report.md; runs, responses, figures and logs.")


def main(name: str, folder: Path, seeds: Sequence[int], *, is_plan: bool) -> None:
    """Prints the cost at the paper's scale, then the commands, or runs them."""
    console = Console(highlight=False)
    if name == "paper":
        scale = paper_scale()
        show_cost(scale, seeds, console)
    else:
        scale = demo_scale(folder, DEMO_STEPS)
    if is_plan:
        lines = [command for lane in lanes(scale, folder, seeds) for command in lane]
        for command in [*lines, *analyses(scale, folder, seeds)]:
            print(shlex.join(command.argv))
        return
    try:
        run(scale, folder, seeds, console)
    except RuntimeError as error:
        sys.exit(f"barl reproduce paper: {error}")
