"""Ctrl-C and SIGTERM: a command ends with one line, which says what is kept and how to go on."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .parsers import is_first_process, printable


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM."""

    kept = ""
    """A sentence that says what is kept of the work; empty: nothing is."""
    resume = ""
    """Value of --resume_from_checkpoint with which the same command goes on; empty: none."""

    def __init__(self, signum: int):
        super().__init__(signum)
        self.signum = signum


def name_of(signum: int) -> str:
    """Return what a user calls a signal."""
    return "Ctrl-C" if signum == signal.SIGINT else signal.Signals(signum).name


@contextmanager
def raised(first: Callable[[int], None] | None = None) -> Iterator[None]:
    """Raise [`Interrupted`] on Ctrl-C and SIGTERM; in other threads than the main one, do nothing.

    With `first`, the first signal calls it and raises nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    actions, process = [first] if first else [], os.getpid()

    def handle(signum, frame):
        if os.getpid() != process:  # a fork, which a signal ends as usual
            _end_by(signum)
        if not actions:
            raise Interrupted(signum)
        actions.pop()(signum)

    earlier = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # a shell lets its background jobs ignore Ctrl-C
    heard = [number for number, handler in earlier.items() if handler != signal.SIG_IGN]
    for number in heard:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, earlier[number])


@contextmanager
def kept(what: Callable[[], tuple[str, str]]) -> Iterator[None]:
    """Put what `what` returns into the `kept` and `resume` of an [`Interrupted`] that passes."""
    try:
        yield
    except Interrupted as interrupt:
        interrupt.kept, interrupt.resume = what()
        raise


@contextmanager
def ended_in_one_line(command: str) -> Iterator[None]:
    """Turn an interruption of `barl COMMAND` into a line and the exit status of its signal.

    After Ctrl-C, Python must end the process by the signal itself: else a loop in a shell goes on.
    """
    try:
        with raised():
            yield
    except Interrupted as interrupt:
        if is_first_process():
            end_of_line = "\n" if sys.stderr.isatty() else ""  # after ^C
            sys.stderr.write(f"{end_of_line}{printable(_line(command, interrupt))}\n")
        sys.stderr.flush()
        if "RANK" in os.environ:  # the interpreter's end would wait for the other processes
            _end_by(interrupt.signum)
        if interrupt.signum == signal.SIGTERM:
            sys.exit(128 + signal.SIGTERM)
        sys.excepthook = lambda *_: None
        raise KeyboardInterrupt from None  # Python ends with status 1 after a subclass


def _end_by(signum: int) -> None:
    signal.signal(signum, signal.SIG_DFL)
    signal.raise_signal(signum)


def _line(command: str, interrupt: Interrupted) -> str:
    how = f"{interrupt.kept} To go on:" if interrupt.kept else "To start again:"
    option = f" with --resume_from_checkpoint {interrupt.resume}" if interrupt.resume else ""
    ended = f"barl {command}: ended by {name_of(interrupt.signum)}."
    return f"{ended} {how} the same command{option}."
