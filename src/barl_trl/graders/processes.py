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
from typing import IO, Literal, cast

from .environment import warn_of_environment

logger = logging.getLogger(__name__)

Outcome = Literal["equal", "different", "timeout", "crash"]

_MODULE = "barl_trl.graders.worker"
_START_SECONDS = 120.0


class _Process:
    """A child that compares, and the two pipes to it. It imports its libraries while we go on."""

    def __init__(self, cpu_seconds: int):
        self.child = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", _MODULE, str(cpu_seconds), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the parent
            # An operation of gmpy2 may abort the process where Python raises a MemoryError.
            env={**os.environ, "SYMPY_GROUND_TYPES": "python", "MPMATH_NOGMPY": "1"},
        )
        self._requests = cast(IO[bytes], self.child.stdin)
        self._replies = cast(IO[bytes], self.child.stdout)
        self._is_ready = False
        self.is_worn = False
        self.comparisons = 0

    def is_ready(self) -> bool:
        """Return whether it answers, once it had the time to start."""
        if not self._is_ready:
            self._is_ready = self._receive(_START_SECONDS) == "ready"
        return self._is_ready and self.child.poll() is None

    def ask(self, comparison: str, gold: str, answer: str, wall_seconds: float) -> Outcome:
        self.comparisons += 1
        request = json.dumps([comparison, gold, answer]).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError):
            self._requests.write(request)
        reply = self._receive(wall_seconds)
        outcome, _, state = (reply or "").partition(" ")
        self.is_worn = state == "worn"
        if outcome in ("equal", "different"):
            return outcome
        if reply is None:
            return "timeout"
        return "timeout" if self.child.wait() == -signal.SIGXCPU else "crash"

    def _receive(self, seconds: float) -> str | None:
        """Return the next line, which the child writes in one piece; None if it is late."""
        poller = select.poll()
        poller.register(self._replies, select.POLLIN)
        if not poller.poll(seconds * 1000):
            return None
        return os.read(self._replies.fileno(), 64).decode().strip()

    def kill(self) -> None:
        self.child.kill()
        self._requests.close()
        self._replies.close()
        self.child.wait()


class ProcessPool:
    """Compare two answers in one of several child processes, within limits on time and memory.

    Processes start when they are first needed, and one more than is needed is kept warm. One that
    does not answer is killed. Safe to call from any thread; each call has a process to itself.

    Args:
        size: Most comparisons at the same time. Defaults to the CPU cores that this process may
            use, shared among the processes of a `torchrun` or `accelerate` launch, but at most 4.
        cpu_seconds: CPU time of one comparison in seconds, up to 1 s more; the kernel ends the
            process. It is the limit that matters: unlike the wall time it does not depend on the
            machine's load.
        wall_seconds: Wall time of one comparison in seconds, for a process that waits and does not
            compute.
        recycle_after: Comparisons after which a process is replaced, for what its libraries
            remember.
    """

    def __init__(
        self,
        *,
        size: int | None = None,
        cpu_seconds: int = 3,
        wall_seconds: float = 15.0,
        recycle_after: int = 5000,
    ):
        self.size = size or _default_size()
        self._cpu_seconds = cpu_seconds
        self._wall_seconds = wall_seconds
        self._recycle_after = recycle_after
        self._has_worked = False
        self._reset()

    def _reset(self) -> None:
        self._slots = threading.BoundedSemaphore(self.size)
        self._lock = threading.Lock()
        self._idle: deque[_Process] = deque()
        self._all: set[_Process] = set()

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
            outcome: Outcome = "crash"
            try:
                with self._lock:
                    if not self._idle and len(self._all) <= self.size:
                        self._idle.append(self._start())  # warm when the next one is needed
                outcome = process.ask(comparison, gold, answer, self._wall_seconds)
            finally:
                # Also after a KeyboardInterrupt: a late verdict must not be read as the next one.
                is_fit = outcome in ("equal", "different") and not process.is_worn
                if is_fit and process.comparisons < self._recycle_after:
                    self._idle.appendleft(process)
                else:
                    self._drop(process)
            return outcome

    def start(self) -> None:
        """Start a process, if there is none, and wait until it answers.

        Raises:
            RuntimeError: If none does.
        """
        with self._slots:
            self._idle.appendleft(self._take())

    def close(self) -> None:
        """End all processes; a later call starts others."""
        for process in [*self._all]:
            self._drop(process)
        self._idle.clear()

    def forget(self) -> None:
        """After `os.fork`, in the child: let go of what belongs to the parent."""
        for process in self._all:
            process.child.returncode = 0  # not ours to wait for: no warning about it
        self._reset()

    def _take(self) -> _Process:
        """Return a process that answers, or raise a RuntimeError."""
        while True:
            with self._lock:
                is_new = not self._idle
                process = self._start() if is_new else self._idle.popleft()
            if process.is_ready():
                self._has_worked = True
                return process
            self._drop(process)
            if is_new:  # an idle one may just have died meanwhile
                raise RuntimeError(
                    "the grader's process must start, got none that answers: run "
                    f"`{sys.executable} -m {_MODULE} {self._cpu_seconds} 0 < /dev/null` to see why "
                    "(is `math-verify[antlr4_13_2]` installed, do `ulimit -t` and `-v` allow it?)."
                )

    def _start(self) -> _Process:
        warn_of_environment()
        process = _Process(self._cpu_seconds)
        self._all.add(process)
        return process

    def _drop(self, process: _Process) -> None:
        process.kill()
        self._all.discard(process)


def _default_size() -> int:
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, min(4, cores // int(os.environ.get("LOCAL_WORLD_SIZE", 1))))


compare = ProcessPool()
"""The processes that all graders of this process share."""

atexit.register(compare.close)
os.register_at_fork(after_in_child=compare.forget)
