"""Standard output that no text breaks and, where hours of work depend on it, nothing else."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any


def accept_any_text() -> None:
    """Let standard output take every text: what its encoding does not have is written as `?`.

    Standard error does so already. What a shell closed (`>&-`) becomes `/dev/null`.
    """
    while (unused := os.open(os.devnull, os.O_RDWR)) < 3:
        pass  # a file that is opened later would be printed into
    os.close(unused)
    sys.stdout = sys.stdout or io.TextIOWrapper(io.FileIO(1, "w"), "utf-8")  # type: ignore
    sys.stderr = sys.stderr or io.TextIOWrapper(io.FileIO(2, "w"), "utf-8")  # type: ignore
    if isinstance(sys.stdout, io.TextIOWrapper):  # a notebook's, or one of a test, takes all
        with suppress(OSError):  # a pipe that took the place of a file cannot seek, as Python tries
            sys.stdout.reconfigure(errors="replace")


class _Unfailing(io.FileIO):
    """A file that loses what cannot be written: nobody reads, or the disk is full."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or len(data)  # None where it would have to wait
        except OSError:
            return len(data)


@contextmanager
def unfailing_output() -> Iterator[None]:
    """Let no error of standard output or standard error reach what prints."""
    accept_any_text()
    files: Any = (sys.__stdout__, sys.__stderr__)
    with ExitStack() as redirections:
        for stream, redirect in ((sys.stdout, redirect_stdout), (sys.stderr, redirect_stderr)):
            if stream in files:  # else it is no file
                stream.flush()
                raw = io.BufferedWriter(_Unfailing(stream.fileno(), "w", closefd=False))
                text = io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=True)
                redirections.enter_context(redirect(text))
        yield
