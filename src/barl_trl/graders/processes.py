"""Comparisons in child processes, which can be killed: the parent's end. It needs POSIX.

math-verify's time-outs are signals, for the main thread only. Libraries' pools are multiprocessing,
which starts none in a data loader's worker, and runs unguarded scripts again.
"""

import contextlib
import json
import math
import os
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from .numbers import Tolerance

FAILURES = ("timeout", "crash", "left out")
"""Outcomes of a comparison that has no result."""

# -P: a `random.py` in the working directory is not Python's
_WORKER = ("-P", "-Wignore", "-m", "barl_trl.graders.worker")
# gmpy2 may abort a process where Python raises a MemoryError, and no time-out interrupts it.
# lazy_loader would import torch, for which there is no room.
_ENVIRONMENT = {"SYMPY_GROUND_TYPES": "python", "MPMATH_NOGMPY": "1", "EAGER_IMPORT": ""}


class ProcessPool:
    """Compare two answers in one of several child processes, within limits on time and memory.

    Processes start when they are needed; one that does not answer is killed. Safe to call from any
    thread. At most `size` compare at the same time: by default as many as this process has CPU
    cores, shared with the others of a launch, and at most 4.
    """

    def __init__(
        self, *, size: int | None = None, cpu_seconds: float = 3.0, wall_seconds: float = 15.0
    ):
        cores = len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        self.size = size or max(1, min(4, cores))
        self._cpu_seconds, self._wall_seconds = cpu_seconds, wall_seconds
        self._idle: list[Any] = []
        self._seconds_left = math.inf
        self.forget()

    def forget(self) -> None:
        """Let go of all processes: after `os.fork`, in the child, they belong to the parent."""
        for process in self._idle:
            process.returncode = 0  # it does not warn that it still runs
        self._slots = threading.BoundedSemaphore(self.size)
        self._idle = []

    def __call__(self, gold: str, answer: str, near: Tolerance | None = None) -> str:
        """Return `equal` or `different` (see `parsed.py`), `timeout`, `crash` or `left out`."""
        request = json.dumps([gold, answer, *(near or ())]).encode() + b"\n"
        with self._slots:
            if self._seconds_left <= 0:
                return "left out"
            began, outcome = time.perf_counter(), self._ask(request)
            # A process may also die of what it compared before, or of a hard limit on its CPU time.
            outcome = self._ask(request) if outcome == "crash" else outcome
            self._seconds_left -= time.perf_counter() - began
            return outcome

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Let all comparisons in this context take so long together; later ones are left out."""
        self._seconds_left = seconds
        try:
            yield
        finally:
            self._seconds_left = math.inf

    def _ask(self, request: bytes) -> str:
        process, reply = self._take(), None
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(request)
            reply = _reply(process, self._wall_seconds)
        finally:  # also after a KeyboardInterrupt: a late reply is not the next one's
            (self._idle.append if reply else _kill)(process)
        is_late = reply is None or process.returncode == -signal.SIGPROF
        return reply or ("timeout" if is_late else "crash")

    def start(self) -> None:
        """Start a process, if there is none, and raise a RuntimeError if it does not answer."""
        with self._slots:
            self._idle.append(self._take())

    def close(self) -> None:
        """End the idle processes; a later call starts others. A busy one is not ended."""
        while self._idle:
            _kill(self._idle.pop())

    def _take(self) -> Any:
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        process = subprocess.Popen(
            [sys.executable, *_WORKER, f"{self._cpu_seconds}", f"{os.getpid()}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if sys.__stderr__ else subprocess.DEVNULL,  # closed: replies would go there
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the parent
            env=os.environ | _ENVIRONMENT,
        )
        if _reply(process, 120.0) != "ready":
            _kill(process)
            command = shlex.join([sys.executable, *_WORKER])
            raise RuntimeError(f"no grader's process answers: `{command} 1 0 < /dev/null` says why")
        return process


def _reply(process: Any, seconds: float) -> str | None:
    """Return the child's next line, written in one piece; "" if the child ended, None if late."""
    poller = select.poll()
    poller.register(process.stdout, select.POLLIN)
    if not poller.poll(1000 * seconds):
        return None
    return os.read(process.stdout.fileno(), 64).decode().strip()


def _kill(process: subprocess.Popen) -> None:
    with process:  # closes the pipes and waits
        process.kill()


compare = ProcessPool()  # all graders of this process share it, and its processes end with it

os.register_at_fork(after_in_child=compare.forget)
