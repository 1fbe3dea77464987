"""The child's end of [`~barl_trl.graders.processes`]: compares answers until its input ends.

`python -m barl_trl.graders.worker CPU_SECONDS PARENT` answers each JSON line `[comparison, gold,
answer]` with `equal` or `different`, and `worn` behind it if it should be replaced. It does not
catch what a parser raises, but dies of it: after a MemoryError or a RecursionError nobody knows
what a library's caches hold.
"""

import json
import logging
import mmap
import os
import resource
import signal
import sys
import time

_PARENT_CHECK_SECONDS = 5.0
_MEMORY = 1 << 30


def main(cpu_seconds: int, parent: int) -> None:
    """Answer comparisons until standard input ends, or the parent.

    Args:
        cpu_seconds: CPU time of one comparison in seconds. The kernel ends the process when it is
            spent: the only limit that also holds inside one long big-integer operation.
        parent: Process id of the parent, which may have ended before this line.

    Raises:
        SystemExit: If the hard limit on CPU time is too low for a comparison.
    """
    logging.disable(logging.CRITICAL)  # math-verify warns that its own timeouts are off
    replies = os.dup(1)
    os.dup2(2, 1)  # the parsers print; the pipe is for verdicts
    _limit(resource.RLIMIT_CORE, 0)
    if sys.platform == "linux":
        _limit(resource.RLIMIT_AS, _MEMORY)

    from .default.parsed import is_readable, parsed_equal, rounds_to
    from .qwen.parsed import symbolic_equal

    comparisons = {
        "math_verify": parsed_equal,
        "rounded": rounds_to,
        "qwen": symbolic_equal,
        "readable": lambda gold, _: is_readable(gold),
    }
    # Import and build the parser's tables before the clock of a comparison runs.
    parsed_equal("1", r"\frac{2}{2}")
    if not _limit_cpu(cpu_seconds):
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        sys.exit(f"`ulimit -t` must leave a comparison {cpu_seconds} s, got {hard} s: raise it.")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)  # from here on a traceback is the answer's fault, or the parent has ended
    os.write(replies, b"ready\n")
    # A process that the parent forked, such as a data loader's, may hold the pipe open after it.
    signal.signal(signal.SIGALRM, lambda *_: os.getppid() == parent or os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, _PARENT_CHECK_SECONDS, _PARENT_CHECK_SECONDS)
    for request in sys.stdin.buffer:
        comparison, gold, answer = json.loads(request)
        _limit_cpu(cpu_seconds)
        reply = b"equal" if comparisons[comparison](gold, answer) else b"different"
        is_fit = _limit_cpu(cpu_seconds) and _has_room()
        os.write(replies, reply + (b"\n" if is_fit else b" worn\n"))


def _limit(kind: int, wanted: int) -> bool:
    """Set a soft limit, at most the hard one, which stays; return whether that is still higher."""
    hard = resource.getrlimit(kind)[1]
    is_higher = hard == resource.RLIM_INFINITY or hard > wanted
    resource.setrlimit(kind, (wanted if is_higher else hard, hard))
    return is_higher


def _limit_cpu(seconds: int) -> bool:
    """Limit the CPU time of a comparison from now on; return whether the hard limit allows it."""
    return _limit(resource.RLIMIT_CPU, int(time.process_time()) + 1 + seconds)


def _has_room() -> bool:
    """Whether half the memory is free: a library may have caught a MemoryError, and kept all."""
    try:
        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        mmap.mmap(-1, min(_MEMORY, soft) // 2, mmap.MAP_PRIVATE, mmap.PROT_READ).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
