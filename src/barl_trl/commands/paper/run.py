"""Run the experiments, and go on where a run was stopped."""

import contextlib
import json
import os
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import chain
from pathlib import Path

import psutil

from ...report.json_files import read_json
from ...trainer.output_folder import one_writer
from ..console import print_note, progress_bar
from ..parsers import printable
from .commands import Command, analyses, lanes
from .cost import print_cost
from .report import report
from .scales import Scale, demo_scale, paper_scale, refuse_machine

DEMO_STEPS = 80
GRACE = 40.0
"""Seconds until a process that was told to end is killed; a launcher gives its own 30."""
SETTINGS = ("models", "benchmarks", "launcher", "train", "evaluate", "arm_options")
"""Fields of a scale that must not change in a folder."""


class Book:
    """The commands that are done, in a file that outlives the process, and the output of each.

    Attributes:
        seconds: What each command that is done took.
    """

    def __init__(self, folder: Path, num_threads: int):
        self.environment = os.environ | {"OMP_NUM_THREADS": str(num_threads)}
        self.folder, self.file = folder, folder / "done.txt"
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []
        self.seconds = {key: int(took) for took, key in (line.split("\t", 1) for line in lines)}
        self.running: set[subprocess.Popen] = set()
        self.is_stopped, self.lock = False, threading.Lock()

    def run(self, command: Command) -> None:
        """Run a command unless it is done.

        Raises:
            RuntimeError: It failed: the message has the end of its output.
        """
        if command.key in self.seconds or self.is_stopped:
            return
        log = self.folder / "logs" / f"{command.name.replace(' ', '-')}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        started = time.perf_counter()
        with log.open("w", encoding="utf-8") as output:
            argv = [*command.argv, *command.resume]
            streams = {"stdout": output, "stderr": subprocess.STDOUT}
            with self.lock:
                if self.is_stopped:
                    return
                process = subprocess.Popen(argv, env=self.environment, **streams)
                self.running.add(process)
            process.wait()
            self.running.discard(process)
        if self.is_stopped:  # its exit status says nothing of it
            return
        if process.returncode:
            end = "\n".join(log.read_text(errors="replace", encoding="utf-8").splitlines()[-5:])
            raise RuntimeError(f"{command.name} failed, see {log}:\n{end}")
        seconds = self.seconds[command.key] = round(time.perf_counter() - started)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"{seconds}\t{command.key}\n")

    def run_lanes(
        self, lanes: Sequence[Sequence[Command]], *, at_once: int, advance: Callable[[], object]
    ) -> None:
        """Run lanes of commands beside each other; the commands of a lane follow each other.

        Args:
            lanes: The lanes.
            at_once: How many lanes at a time.
            advance: Called after each command.

        Raises:
            RuntimeError: A command failed. What was running is ended, and nothing more starts.
        """

        def follow(commands: Sequence[Command]) -> None:
            try:
                for command in commands:
                    self.run(command)
                    if not self.is_stopped:
                        advance()
            except RuntimeError:
                self.stop()
                raise

        with ThreadPoolExecutor(at_once) as pool:
            try:
                for done in as_completed([pool.submit(follow, lane) for lane in lanes]):
                    done.result()
            except KeyboardInterrupt:
                self.stop()
                raise

    def stop(self) -> None:
        """End what is running, and start nothing more."""
        with self.lock:
            self.is_stopped = True
        end([*self.running])


def end(processes: Sequence[subprocess.Popen]) -> None:
    """End processes and theirs; those that do not end by themselves are killed."""
    descendants = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            descendants += psutil.Process(process.pid).children(recursive=True)
        process.terminate()
    for process in processes:
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
    for process in descendants:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def refuse_other_settings(scale: Scale, folder: Path) -> None:
    """Refuse a folder of another experiment: its checkpoints would be resumed.

    Raises:
        ValueError: It has results of other settings. Only the number of seeds may change.
    """
    file = folder / "settings.json"
    settings = json.loads(json.dumps({name: getattr(scale, name) for name in SETTINGS}))
    seen = read_json(file) if file.exists() else settings
    for name in SETTINGS:
        if seen.get(name) != settings[name]:
            raise ValueError(
                f"output_dir must hold results of the same settings, got {folder} with {name} "
                f"{seen.get(name)}, where it is now {settings[name]}: choose another folder."
            )
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


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
    book = Book(folder, num_threads=max(1, (os.cpu_count() or 1) // scale.at_once))
    all_lanes = [*lanes(scale, folder, seeds)]
    figures = [*analyses(scale, folder, seeds)]
    commands = [*chain.from_iterable(all_lanes), *figures]
    with progress_bar() as progress:
        task = progress.add_task("reproduce paper", total=len(commands))
        book.run_lanes(all_lanes, at_once=scale.at_once, advance=lambda: progress.advance(task))
        book.run_lanes([figures], at_once=1, advance=lambda: progress.advance(task))
    page = report(scale, folder, seeds, sum(book.seconds[command.key] for command in commands))
    print_note(f"In {folder}: {page.name}, report.md; runs, responses, figures and logs.")


def main(name: str, folder: Path, seeds: Sequence[int], *, is_plan: bool) -> None:
    """Print the cost at the paper's scale, then the commands, or run them.

    Raises:
        RuntimeError: A command failed.
        ValueError: This machine cannot run them, or the folder has results of other settings.
    """
    scale = paper_scale() if name == "paper" else demo_scale(folder, DEMO_STEPS)
    if name == "paper":
        print_cost(scale, seeds)
    if is_plan:
        for command in [*chain(*lanes(scale, folder, seeds)), *analyses(scale, folder, seeds)]:
            print(printable(shlex.join(command.argv)))
        return
    if name == "paper":
        refuse_machine()
    run(scale, folder, seeds)
