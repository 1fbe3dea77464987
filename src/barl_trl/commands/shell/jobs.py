"""Jobs that each write a file, in parallel processes; a job whose file exists is done."""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import psutil


class FileJob(NamedTuple):
    """A function that writes a file, whose path is its first argument."""

    path: Path
    function: Callable[..., None]
    arguments: tuple[Any, ...]


def run_jobs(
    jobs: Sequence[FileJob],
    advance: Callable[[], object],
    *,
    at_once: int | None = None,
    grace: float = 40.0,
) -> None:
    """Run the jobs whose file is missing, each in a process of one thread.

    Where a job fails or the run is interrupted, those that are running are ended, with all that
    they started.

    Args:
        jobs: The jobs, whose functions can be pickled.
        advance: Called for each job when it is done, or at once if it was done before.
        at_once: Jobs at a time; None: as many as there are cores.
        grace: Seconds until what a job started is killed; a launcher gives its processes 30.

    Raises:
        Exception: A job failed; this is the exception that it raised.
    """
    missing = [job for job in jobs if not job.path.exists()]
    for _ in range(len(jobs) - len(missing)):
        advance()
    if not missing:
        return
    number = min(at_once or len(os.sched_getaffinity(0)), len(missing))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch"])  # imported once for all processes
    with ProcessPoolExecutor(number, context, _start_worker, (grace, os.getcwd())) as pool:
        try:
            for done in as_completed([pool.submit(_run, job) for job in missing]):
                done.result()
                advance()
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _run(job: FileJob) -> None:
    job.path.parent.mkdir(parents=True, exist_ok=True)
    job.function(job.path, *job.arguments)


def _start_worker(grace: float, folder: str) -> None:
    import torch

    parent: Any = multiprocessing.parent_process()  # not the fork server, which lives on

    def end_as_orphan(signum, frame):
        if not parent.is_alive():
            end(signum, frame)

    def end(signum, frame):
        for ended in (signal.SIGTERM, signal.SIGALRM):
            signal.signal(ended, signal.SIG_IGN)
        children = psutil.Process().children()
        descendants = psutil.Process().children(recursive=True)
        for child in children:
            child.terminate()
        psutil.wait_procs(children, timeout=grace)
        for process in descendants:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        os._exit(128 + signum)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, end_as_orphan)  # after SIGKILL nobody is left to end it
    signal.setitimer(signal.ITIMER_REAL, 5.0, 5.0)
    os.chdir(folder)
    torch.set_num_threads(1)
