"""Log lines and tracebacks, whose texts of models and files' names may command a terminal."""

import logging
import sys
import traceback

from .parsers import printable


class _PrintableRecord(logging.LogRecord):
    def getMessage(self) -> str:
        return printable(super().getMessage())


def _print_traceback(kind, error, trace) -> None:
    sys.stderr.write(printable("".join(traceback.format_exception(kind, error, trace))))
    sys.stderr.flush()


def escape_logs_and_tracebacks() -> None:
    """Escape the control characters of all that this process logs, and of its last traceback."""
    logging.setLogRecordFactory(_PrintableRecord)
    sys.excepthook = _print_traceback
