"""Standard output that takes every text, and whose errors do not stop a run."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any


def accept_any_text() -> None:
    """Let standard output write every text, with `?` for characters that its encoding lacks.

    Standard error does so already. A stream that the shell closed (`>&-`) becomes `/dev/null`.
    """
    # a file that is opened later would get a closed stream's number, and be printed into
    while (unused := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(unused)
    sys.stdout = sys.stdout or io.TextIOWrapper(io.FileIO(1, "w"), "utf-8")  # type: ignore
    sys.stderr = sys.stderr or io.TextIOWrapper(io.FileIO(2, "w"), "utf-8")  # type: ignore
    if isinstance(sys.stdout, io.TextIOWrapper):  # the streams of notebooks and tests take all
        with suppress(OSError):  # Python tries to seek, which fails if a pipe replaced a file
            sys.stdout.reconfigure(errors="replace")


class _Unfailing(io.FileIO):
    """A file that drops what it cannot write, because nobody reads it or the disk is full."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or len(data)  # None if the write would block
        except OSError:
            return len(data)


@contextmanager
def unfailing_output() -> Iterator[None]:
    """Let printing raise no error inside this context, whatever happens to the streams."""
    accept_any_text()
    files: Any = (sys.__stdout__, sys.__stderr__)
    with ExitStack() as redirections:
        for stream, redirect in ((sys.stdout, redirect_stdout), (sys.stderr, redirect_stderr)):
            if stream in files:  # a replaced stream need not be a file
                stream.flush()
                raw = io.BufferedWriter(_Unfailing(stream.fileno(), "w", closefd=False))
                text = io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=True)
                redirections.enter_context(redirect(text))
        yield
