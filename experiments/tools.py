"""What experiments share: trainings that each write a file, statistics, tables in Markdown."""

import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from barl_trl.evaluation.statistics import interval, mean_and_standard_error, student_tail


class FileJob(NamedTuple):
    """A function that writes a file, whose path is its first argument."""

    path: Path
    function: Callable[..., None]
    arguments: tuple[Any, ...]


def run_jobs(title: str, jobs: Sequence[FileJob], processes: int | None = None) -> None:
    """Run the jobs whose file is missing, a thread each.

    So a run that was interrupted goes on. The functions can be pickled. `processes` are run at a
    time; None: as many as there are cores.

    Raises:
        Exception: A job failed; this is the exception that it raised.
    """
    missing = [job for job in jobs if not job.path.exists()]
    if not missing:
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch"])  # imported once for all processes
    number = min(processes or len(os.sched_getaffinity(0)), len(missing))
    with ProcessPoolExecutor(number, context, _start_worker) as pool:
        try:
            results = [pool.submit(_run, job) for job in missing]
            for done, result in enumerate(as_completed(results), len(jobs) - len(missing) + 1):
                result.result()
                print(f"{title}: {done} of {len(jobs)}", file=sys.stderr, flush=True)
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _run(job: FileJob) -> None:
    job.path.parent.mkdir(parents=True, exist_ok=True)
    job.function(job.path, *job.arguments)


def _start_worker() -> None:
    import torch

    torch.set_num_threads(1)


def write_json(path: Path, content: Any) -> None:
    """Write a file as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def collect(folder: Path, lines: Path) -> None:
    """Write each file of a folder as a line of another file, beside the lines it has."""
    text = lines.read_text(encoding="utf-8") if lines.exists() else ""
    records = {record["path"]: record for record in map(json.loads, text.splitlines())}
    for path in folder.rglob("*.json"):
        name = str(path.relative_to(folder))
        records[name] = {"path": name} | read_json(path)
    written = [json.dumps(records[name], separators=(",", ":")) + "\n" for name in sorted(records)]
    lines.write_text("".join(written), encoding="utf-8")


def restore(lines: Path, folder: Path) -> None:
    """Write the files whose lines [`collect`] wrote, where they are missing."""
    for record in map(json.loads, lines.read_text(encoding="utf-8").splitlines()):
        path = folder / record.pop("path")
        if not path.exists():
            write_json(path, record)


def read_json(path: Path) -> Any:
    """Read what [`write_json`] wrote."""
    return json.loads(path.read_text(encoding="utf-8"))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def with_error(values: Sequence[float], digits: int) -> str:
    """Return the mean of independent values ± its standard error."""
    mean, error = mean_and_standard_error(values)
    return f"{mean:.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")


class Difference(NamedTuple):
    """A mean difference of pairs."""

    mean: float
    low: float
    """Student's interval of 95 %; as `high` and `p` NaN without any spread."""
    high: float
    p: float
    """Of a two-sided t-test."""

    def __str__(self) -> str:
        is_alone = self.low != self.low
        return f"{self.mean:+.1f}" + f" [{self.low:+.1f}, {self.high:+.1f}]" * (not is_alone)


def paired(values: Sequence[float], others: Sequence[float]) -> Difference:
    """Compare values of the same seeds; where one side has more, the first ones."""
    differences = [a - b for a, b in zip(values, others, strict=False)]
    mean, error = mean_and_standard_error(differences)
    if not error:
        return Difference(mean, *[float("nan")] * 3)
    low, high = interval(mean, error, len(differences))
    return Difference(mean, low, high, 2 * student_tail(abs(mean) / error, len(differences) - 1))
