"""The child's end of [`~barl_trl.graders.processes`]: compares answers until its input ends.

`python -m barl_trl.graders.worker CPU_SECONDS PARENT` reads one JSON line `[comparison, gold,
answer]` at a time and writes `equal` or `different`, and `worn` behind it if it should be replaced.
It ends with its standard input, that is: with its parent. It does not catch what a parser raises,
but dies of it: after a MemoryError or a RecursionError nobody knows what a library's caches hold,
and the parent has a fresh process waiting.
"""

import json
import logging
import os
import resource
import select
import sys

_PARENT_CHECK_SECONDS = 5.0


def main(cpu_seconds: int, parent: int) -> None:
    """Answer comparisons until standard input ends.

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
    memory = 1 << 30
    if sys.platform == "linux":
        _limit(resource.RLIMIT_AS, memory)
        memory = resource.getrlimit(resource.RLIMIT_AS)[0]

    from .default.parsed import is_readable, parsed_equal
    from .qwen.parsed import symbolic_equal

    comparisons = {
        "math_verify": parsed_equal,
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
    for comparison, gold, answer in _requests(parent):
        _limit_cpu(cpu_seconds)
        is_equal = comparisons[comparison](gold, answer)
        # A library may have caught a MemoryError, and kept what it has; or the hard limit on CPU
        # time would end the next comparison. The parent replaces us.
        is_worn = _resident_bytes() > memory // 2 or not _limit_cpu(cpu_seconds)
        reply = b"equal" if is_equal else b"different"
        os.write(replies, reply + (b" worn\n" if is_worn else b"\n"))


def _limit(kind: int, wanted: int) -> bool:
    """Set a soft limit, at most the hard one, which stays; return whether that is still higher."""
    hard = resource.getrlimit(kind)[1]
    is_higher = hard == resource.RLIM_INFINITY or hard > wanted
    resource.setrlimit(kind, (wanted if is_higher else hard, hard))
    return is_higher


def _limit_cpu(seconds: int) -> bool:
    """Limit the CPU time of a comparison from now on; return whether the hard limit allows it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    end = int(used.ru_utime + used.ru_stime) + 1 + seconds
    return _limit(resource.RLIMIT_CPU, end)


def _resident_bytes() -> int:
    """Memory in use. Not the peak, which on Linux begins with that of the parent."""
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _requests(parent: int):
    """Yield the requests of the parent until it closes the pipe or is gone.

    A process that the parent forked, such as a data loader's, may hold the pipe open after it.
    """
    buffer = b""
    while os.getppid() == parent:
        if not select.select([0], [], [], _PARENT_CHECK_SECONDS)[0]:
            continue
        received = os.read(0, 1 << 16)
        if not received:
            return
        *lines, buffer = (buffer + received).split(b"\n")
        yield from map(json.loads, lines)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
