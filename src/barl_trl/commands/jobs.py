"""Jobs that write a file each, in processes of one thread; a job whose file is there is done."""

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from ..report.json_files import read_json


class Job(NamedTuple):
    """A function that writes a file, whose path is its first argument."""

    path: Path
    function: Callable[..., None]
    arguments: tuple[Any, ...]


def run_jobs(jobs: Sequence[Job], advance: Callable[[], None]) -> None:
    """Run the jobs whose file is missing, as many at once as there are cores.

    Args:
        jobs: Their functions can be pickled.
        advance: Called when a job is done, or was before.
    """
    missing = [job for job in jobs if not job.path.exists()]
    for _ in range(len(jobs) - len(missing)):
        advance()
    if not missing:
        return
    cores = len(os.sched_getaffinity(0))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "transformers"])  # imported once for all processes
    with ProcessPoolExecutor(cores, context, initializer=_one_thread) as pool:
        try:
            for done in as_completed([pool.submit(_run, job) for job in missing]):
                done.result()
                advance()
        except KeyboardInterrupt:
            for process in multiprocessing.active_children():
                process.terminate()
            raise
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _run(job: Job) -> None:
    job.path.parent.mkdir(parents=True, exist_ok=True)
    job.function(job.path, *job.arguments)


def _one_thread() -> None:
    import torch
    import transformers

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()


def write_json(path: Path, record: Any) -> None:
    """Write a file that is whole or not there."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    part.rename(path)


def file_name(arm: str) -> str:
    """Return an arm's name without spaces and commas."""
    return arm.replace(", ", "-").replace(" ", "_")


def read(paths: Sequence[Path]) -> Iterator[Any]:
    """Yield what is in the files."""
    for path in paths:
        yield read_json(path)
