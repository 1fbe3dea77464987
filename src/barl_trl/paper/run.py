"""Runs the experiments, goes on where a run was stopped, and reports."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from importlib.metadata import version
from itertools import chain
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
from .scales import Model, Scale, demo_scale, paper_scale, refuse_machine

DEMO_STEPS = 80
SETTINGS = ("models", "benchmarks", "launcher", "train", "evaluate", "arm_options")
"""Of a scale: what must not change in a folder."""

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
        "Bayesian state-action values along sampled responses, under each model's own beliefs, "
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
    """What is done, in a file that outlives the process; and the output of every command.

    Attributes:
        seconds: Of each command that is done.
    """

    def __init__(self, folder: Path, num_threads: int):
        self.environment = os.environ | {"OMP_NUM_THREADS": str(num_threads)}
        self.folder, self.file = folder, folder / "done.txt"
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        self.seconds = {key: int(took) for took, key in (line.split("\t", 1) for line in lines)}
        self.running: set[subprocess.Popen] = set()
        self.is_stopped = False

    def run(self, command: Command) -> None:
        """Runs a command unless it is done.

        Raises:
            RuntimeError: It failed: the message has the end of its output.
        """
        if command.key in self.seconds or self.is_stopped:
            return
        log = self.folder / "logs" / f"{command.name.replace(' ', '-')}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        started = time.perf_counter()
        argv = [*command.argv, *command.resume]
        with log.open("w") as output:
            process = subprocess.Popen(
                argv, stdout=output, stderr=subprocess.STDOUT, env=self.environment
            )
            self.running.add(process)
            process.wait()
            self.running.discard(process)
        if process.returncode:
            end = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
            raise RuntimeError(f"{command.name} failed, see {log}:\n{end}")
        seconds = self.seconds[command.key] = round(time.perf_counter() - started)
        with self.file.open("a") as file:
            file.write(f"{seconds}\t{command.key}\n")

    def stop(self) -> None:
        """Ends what is running, and starts nothing more."""
        self.is_stopped = True
        for process in list(self.running):
            process.terminate()


def refuse_other_settings(scale: Scale, folder: Path) -> None:
    """A folder belongs to one experiment: its checkpoints are gone on from.

    Raises:
        ValueError: It has results of other settings. Only the number of seeds may change.
    """
    file = folder / "settings.json"
    settings = json.loads(json.dumps({name: getattr(scale, name) for name in SETTINGS}))
    seen = json.loads(file.read_text()) if file.exists() else settings
    for name in SETTINGS:
        if seen.get(name) != settings[name]:
            raise ValueError(
                f"output_dir must hold results of the same settings, got {folder} with {name} "
                f"{seen.get(name)}, where it is now {settings[name]}: choose another folder."
            )
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(settings, indent=1) + "\n")


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


def on_one_line(options: Sequence[str]) -> str:
    r"""Options as they could be typed, a line break as `\n`."""
    return shlex.join(options).replace("\n", "\\n")


def report(scale: Scale, folder: Path, seeds: Sequence[int], seconds: int) -> Path:
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
        "comparison": scale.comparison,
        "table": [
            accuracies(folder, scale, model, arm, seeds)
            for model in scale.models
            for arm in (BASE, *model.arms)
        ],
        "figures": figures,
        "not_run": scale.not_run,
        "settings": {
            "recipes": ", ".join(f"recipes/{model.recipe}.yaml" for model in scale.models),
            "options of barl train": on_one_line(scale.train),
            **{
                f"more of them for {arm}": on_one_line(more)
                for arm, more in scale.arm_options.items()
            },
            "options of barl evaluate": on_one_line(scale.evaluate),
            "figures are of seed": seeds[0],
            "versions": ", ".join(f"{name} {version(name)}" for name in packages),
            "machine": f"{os.cpu_count()} CPU cores, {torch.accelerator.device_count()} devices",
            "the commands took": f"{seconds / 60:.0f} minutes, {scale.at_once} at a time",
        },
    }
    (folder / "report.json").write_text(json.dumps(content, indent=1))
    return write_report(folder / "report.json")[0]


def follow_all(
    lanes: Sequence[Sequence[Command]], book: Book, *, at_once: int, advance: Callable[[], Any]
) -> None:
    """Runs lanes of commands beside each other.

    Args:
        lanes: Commands that follow each other.
        book: Runs them.
        at_once: How many lanes at a time.
        advance: Called behind each command.

    Raises:
        RuntimeError: One failed. The others are ended.
    """

    def follow(commands: Sequence[Command]) -> None:
        try:
            for command in commands:
                book.run(command)
                advance()
        except RuntimeError:
            book.stop()
            raise

    with ThreadPoolExecutor(at_once) as pool:
        try:
            for done in as_completed([pool.submit(follow, lane) for lane in lanes]):
                done.result()
        except KeyboardInterrupt:
            book.stop()
            raise


def run(scale: Scale, folder: Path, seeds: Sequence[int], console: Console) -> None:
    """Runs what is not done, and writes the report.

    Raises:
        RuntimeError: A command failed.
        ValueError: The folder has results of other settings.
    """
    refuse_other_settings(scale, folder)
    book = Book(folder, num_threads=max(1, (os.cpu_count() or 1) // scale.at_once))
    all_lanes = [*lanes(scale, folder, seeds)]
    figures = [*analyses(scale, folder, seeds)]
    commands = [*chain.from_iterable(all_lanes), *figures]
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("reproduce paper", total=len(commands))
        advance = partial(progress.advance, task)
        follow_all(all_lanes, book, at_once=scale.at_once, advance=advance)
        follow_all([figures], book, at_once=1, advance=advance)
    seconds = sum(book.seconds[command.key] for command in commands)
    page = report(scale, folder, seeds, seconds)
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
        if name == "paper":
            refuse_machine()
        run(scale, folder, seeds, console)
    except (RuntimeError, ValueError) as error:
        sys.exit(f"barl reproduce paper: {error}")
