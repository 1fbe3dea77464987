"""math-verify in a process of its own, which can be killed: both ends of the pipe.

Why not simply call `math_verify.verify` with its own timeouts: they are signals, which work on the
main thread only, and one `9^{9^9}` on another thread holds the GIL and freezes the whole process
for minutes. Why `subprocess` and not `multiprocessing`: it also works inside daemonic workers, off
the main thread and after CUDA is initialised. POSIX only.

`python -m barl_trl._math_verify_worker CPU_SECONDS` reads one JSON line `[gold, prediction]` at a
time and answers `true` or `false`; it ends when its standard input is closed, that is: with its
parent.
"""

import contextlib
import json
import logging
import os
import resource
import select
import subprocess
import sys
import threading
from typing import IO, cast

logger = logging.getLogger(__name__)

_READY, _EQUAL, _DIFFERENT = b"ready\n", b"true\n", b"false\n"
_MODULE = "barl_trl._math_verify_worker"  # not __name__: the child runs it as __main__
_START_SECONDS = 120.0
_MEMORY_BYTES = 1 << 30


class _Process:
    """A child that compares, and the two pipes to it. It imports its libraries while we go on."""

    def __init__(self, cpu_seconds: int):
        command = [sys.executable, "-W", "ignore", "-m", _MODULE, str(cpu_seconds)]
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the parent
        )
        self._requests = cast(IO[bytes], self.child.stdin)
        self._replies = cast(IO[bytes], self.child.stdout)

    def ask(self, gold: str, prediction: str, seconds: float) -> bytes:
        with contextlib.suppress(BrokenPipeError):
            self._requests.write(json.dumps([gold, prediction]).encode() + b"\n")
        return self.receive(seconds)

    def receive(self, seconds: float) -> bytes:
        """Return the next line, which the child writes in one piece; `b""` if there is none."""
        poller = select.poll()
        poller.register(self._replies, select.POLLIN)
        return os.read(self._replies.fileno(), 64) if poller.poll(seconds * 1000) else b""

    def kill(self) -> None:
        self.child.kill()
        self._requests.close()
        self._replies.close()
        self.child.wait()


class MathVerifyWorker:
    """Ask a child process whether two answers are equal, within a limit on its time.

    The process starts at the first call and is replaced after a comparison that does not end. Calls
    from several threads wait for each other.

    Args:
        cpu_seconds (`int`, *optional*, defaults to `3`):
            CPU time of one comparison in seconds, up to 1 s more; the kernel ends the process. It
            is the limit that matters: unlike the wall time it does not depend on the machine's
            load.
        wall_seconds (`float`, *optional*, defaults to `15.0`):
            Wall time of one comparison in seconds, for a process that waits and does not compute.
    """

    def __init__(self, *, cpu_seconds: int = 3, wall_seconds: float = 15.0):
        self.failures = 0  # comparisons without a verdict
        self._cpu_seconds = cpu_seconds
        self._wall_seconds = wall_seconds
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._has_worked = False

    def __call__(self, gold: str, prediction: str) -> bool:
        """Return math-verify's verdict; False, counted in `failures`, if there is none in time.

        Raises:
            RuntimeError: If the first process does not start: all verdicts would be False.
        """
        with self._lock:
            try:
                process = self._ready_process()
            except (RuntimeError, OSError):
                if not self._has_worked:
                    raise
                return self._fail(gold, prediction)
            answered = False
            try:
                reply = process.ask(gold, prediction, self._wall_seconds)
                answered = reply in (_EQUAL, _DIFFERENT)
            finally:
                # Also after a KeyboardInterrupt: a late verdict must not be read as the next one.
                if not answered:
                    self._stop()
            return reply == _EQUAL if answered else self._fail(gold, prediction)

    def close(self) -> None:
        """End the process, if there is one; a later call starts another."""
        with self._lock:
            self._stop()

    def forget(self) -> None:
        """After `os.fork`, in the child: let go of what belongs to the parent."""
        if self._process is not None:
            self._process.child.returncode = 0  # not ours to wait for: no warning about it
        self._lock, self._process = threading.Lock(), None

    def _ready_process(self) -> _Process:
        if self._process is not None and self._process.child.poll() is None:
            return self._process
        self._stop()
        self._process = _Process(self._cpu_seconds)
        if self._process.receive(_START_SECONDS) != _READY:
            self._stop()
            raise RuntimeError(
                "the math-verify process must start, got none that answers: run "
                f"`{sys.executable} -m {_MODULE} {self._cpu_seconds} < /dev/null` to see why "
                "(is `math-verify[antlr4_13_2]` installed?)"
            )
        self._has_worked = True
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._process = None

    def _fail(self, gold: str, prediction: str) -> bool:
        self.failures += 1
        if self.failures == 1:
            logger.warning(
                "comparing %.80r with %.80r gave no verdict within %d s of CPU time; such answers "
                "count as different (further ones are counted, not logged)",
                gold,
                prediction,
                self._cpu_seconds,
            )
        return False


def _compare(gold: str, prediction: str) -> bool:
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    config = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())
    # A parser given bare `3\pi` reads the number 3, hence the boxes. 0: no signals.
    expected, got = (
        parse(f"\\boxed{{{answer}}}", extraction_config=config, parsing_timeout=0)
        for answer in (gold, prediction)
    )
    return verify(expected, got, allow_set_relation_comp=True, timeout_seconds=0)


def main(cpu_seconds: int) -> None:
    """Answer comparisons until standard input ends.

    Args:
        cpu_seconds (`int`):
            CPU time of one comparison in seconds. The kernel ends the process when it is spent: the
            only limit that also holds inside one long big-integer operation.
    """
    logging.disable(logging.CRITICAL)  # math-verify warns that its own timeouts are off
    replies = os.dup(1)
    os.dup2(2, 1)  # the parsers print; the pipe is for verdicts
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, resource.RLIM_INFINITY))
    _compare(
        "1", r"\frac{2}{2}"
    )  # import and build the parser's tables before the clock of a comparison runs
    os.write(replies, _READY)
    for line in sys.stdin.buffer:
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime) + 1 + cpu_seconds
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        os.write(replies, _EQUAL if _compare(*json.loads(line)) else _DIFFERENT)


if __name__ == "__main__":
    main(int(sys.argv[1]))
