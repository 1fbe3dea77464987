"""The child's end of `processes.py`: `python -m barl_trl.graders.worker CPU_SECONDS PARENT`.

It answers each JSON line, the arguments of `parsed_equal`, with `equal` or `different`.
"""

import json
import logging
import os
import resource
import signal
import sys


def main(cpu_seconds: float, parent: int) -> None:
    """Answer comparisons until standard input ends, or the parent, which may have ended already."""
    logging.disable(logging.CRITICAL)  # the parser warns of its settings
    replies, silence = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(2, 1)  # the parsers print; the pipe is for verdicts
    for kind, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_AS, 1 << 30)):
        hard = resource.getrlimit(kind)[1]  # -1 is none; it stays: who may not raise it would fail
        resource.setrlimit(kind, (most if hard < 0 else min(most, hard), hard))

    from .parsed import parsed_equal

    # It also builds the parser's tables, before the first clock runs.
    if not parsed_equal("50%", r"\frac{1}{2}"):  # so it is under antlr 4.9 (hydra), 4.11 (lm-eval)
        sys.exit("antlr4-python3-runtime must be 4.13.2: install antlr4-python3-runtime==4.13.2")
    os.dup2(silence, 1)
    os.dup2(silence, 2)  # from here on a traceback is the answer's fault, or the parent has ended
    os.write(replies, b"ready\n")
    # A process that the parent forked, such as a data loader's, may hold the pipe open after it.
    signal.signal(signal.SIGALRM, lambda *_: os.getppid() == parent or os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, 5.0, 5.0)
    for request in sys.stdin.buffer:
        # The kernel ends it, also inside one long operation, which no handler can interrupt.
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        is_equal = parsed_equal(*json.loads(request))
        signal.setitimer(signal.ITIMER_PROF, 0)
        os.write(replies, b"equal\n" if is_equal else b"different\n")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
