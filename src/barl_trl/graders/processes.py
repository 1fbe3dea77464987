"""Comparisons in processes of their own, which can be killed: the parent's end.

Why not simply call math-verify with its own time-outs: they are signals, which work on the main
thread only, and one `9^{9^9}` on another thread holds the GIL and freezes the whole process for
minutes. Why `subprocess` and not `multiprocessing`: it also works inside daemonic workers, off the
main thread and after CUDA is initialised. POSIX only.
"""

import atexit
import contextlib
import json
import logging
import os
import select
import signal
import subprocess
import sys
import threading
from collections import deque
from functools import cache
from importlib import metadata
from typing import IO, Literal, cast

logger = logging.getLogger(__name__)

Outcome = Literal["equal", "different", "timeout", "crash"]

_MODULE = "barl_trl.graders.worker"
_START_SECONDS = 120.0
_ANTLR_VERSION = "4.13.2"


class _Process:
    """A child that compares, and the two pipes to it."""

    def __init__(self, cpu_seconds: int):
        self.child = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", _MODULE, str(cpu_seconds), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the parent
            # An operation of gmpy2 may abort the process where Python raises a MemoryError.
            # lazy_loader would import torch, for which there is no room.
            env={
                **os.environ,
                "SYMPY_GROUND_TYPES": "python",
                "MPMATH_NOGMPY": "1",
                "EAGER_IMPORT": "",
            },
        )
        self.is_fit = self.receive(_START_SECONDS) == "ready"

    def ask(self, comparison: str, gold: str, answer: str, wall_seconds: float) -> Outcome:
        """Return the outcome of a comparison; `is_fit` says whether another one may follow."""
        self.is_fit = False  # also after a KeyboardInterrupt: a late reply is not the next one's
        request = json.dumps([comparison, gold, answer]).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError):
            cast(IO[bytes], self.child.stdin).write(request)
        reply = self.receive(wall_seconds)
        outcome, _, state = (reply or "").partition(" ")
        if outcome in ("equal", "different"):
            self.is_fit = state != "worn"
            return outcome
        is_late = reply is None or self.child.wait() == -signal.SIGXCPU
        return "timeout" if is_late else "crash"

    def receive(self, seconds: float) -> str | None:
        """Return the next line, which the child writes in one piece; None if it is late."""
        replies = cast(IO[bytes], self.child.stdout).fileno()
        poller = select.poll()
        poller.register(replies, select.POLLIN)
        return os.read(replies, 64).decode().strip() if poller.poll(1000 * seconds) else None

    def kill(self) -> None:
        with self.child:  # closes the pipes and waits
            self.child.kill()


class ProcessPool:
    """Compare two answers in one of several child processes, within limits on time and memory.

    Processes start when they are needed; one that does not answer is killed. Safe to call from any
    thread: each call has a process to itself.

    Args:
        size: Most comparisons at the same time. Defaults to the CPU cores that this process may
            use, shared among the processes of a `torchrun` or `accelerate` launch, but at most 4.
        cpu_seconds: CPU time of one comparison in seconds, up to 1 s more; the kernel ends the
            process. Unlike the wall time it does not depend on the machine's load.
        wall_seconds: Wall time of one comparison in seconds, for a process that only waits.
    """

    def __init__(
        self, *, size: int | None = None, cpu_seconds: int = 3, wall_seconds: float = 15.0
    ):
        cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
        own_cores = cores // int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        self.size = size or max(1, min(4, own_cores))
        self._cpu_seconds = cpu_seconds
        self._wall_seconds = wall_seconds
        self._has_worked = False
        self._idle: deque[_Process] = deque()
        self.forget()

    def forget(self) -> None:
        """Let go of all processes: after `os.fork`, in the child, they belong to the parent."""
        for process in self._idle:
            process.child.returncode = 0  # it does not warn that it still runs
        self._slots = threading.BoundedSemaphore(self.size)
        self._idle = deque()

    def __call__(self, comparison: str, gold: str, answer: str) -> Outcome:
        """Return the outcome of a comparison that [`~barl_trl.graders.worker`] knows by name.

        Raises:
            RuntimeError: If the first process does not start: nothing could ever be compared.
        """
        with self._slots:
            try:
                process = self._take()
            except RuntimeError as error:
                if not self._has_worked:
                    raise
                logger.warning("a comparison counts as a crash: %s", error)
                return "crash"
            try:
                return process.ask(comparison, gold, answer, self._wall_seconds)
            finally:
                if process.is_fit:
                    self._idle.appendleft(process)
                else:
                    process.kill()

    def start(self) -> None:
        """Start a process, if there is none, and wait until it answers.

        Raises:
            RuntimeError: If it does not.
        """
        with self._slots:
            self._idle.appendleft(self._take())

    def close(self) -> None:
        """End the processes that wait; a later call starts others. One at work ends after it."""
        with contextlib.suppress(IndexError):
            while True:
                self._idle.popleft().kill()

    def _take(self) -> _Process:
        with contextlib.suppress(IndexError):
            while True:
                process = self._idle.popleft()
                if process.child.poll() is None:
                    return process
                process.kill()  # it died meanwhile
        _warn_of_antlr()
        process = _Process(self._cpu_seconds)
        if not process.is_fit:
            process.kill()
            raise RuntimeError(
                "the grader's process must start, got none that answers: run "
                f"`{sys.executable} -m {_MODULE} {self._cpu_seconds} 0 < /dev/null` to see why "
                "(is `math-verify[antlr4_13_2]` installed, do `ulimit -t` and `-v` allow it?)."
            )
        self._has_worked = True
        return process


@cache
def _warn_of_antlr() -> None:
    """Say once that under the versions that hydra (4.9) and lm-eval (4.11) ask for, `%` fails."""
    try:
        installed = metadata.version("antlr4-python3-runtime")
    except metadata.PackageNotFoundError:
        installed = "none"
    if installed != _ANTLR_VERSION:
        logger.warning(
            "antlr4-python3-runtime must be %s for the math_verify grader, got %s: answers with a "
            "percent sign will be judged wrong; pip install 'math-verify[antlr4_13_2]'",
            _ANTLR_VERSION,
            installed,
        )


compare = ProcessPool()
"""The processes that all graders of this process share."""

atexit.register(compare.close)
os.register_at_fork(after_in_child=compare.forget)
