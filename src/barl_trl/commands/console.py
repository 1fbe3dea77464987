"""Tables, progress bars, errors in one line, and option checks that several commands share."""

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from .parsers import Mistake, is_first_process, printable


def plain_console() -> Console:
    """Return a console that prints texts as they are: a user's brackets are no markup."""
    return Console(markup=False, emoji=False, highlight=False)


def print_table(title: str, rows: Sequence[Mapping[str, str]], *, align: str = "left") -> None:
    """Print rows as a table.

    Args:
        title: Title of the table.
        rows: The cells of each row by column, not empty; all rows have the same columns.
        align: Of all columns but the first: `"left"` or `"right"`.
    """
    table = Table(title=printable(title))
    first, *others = rows[0]
    table.add_column(first, overflow="fold")
    for column in others:
        table.add_column(column, overflow="fold", justify="right" if align == "right" else "left")
    for row in rows:
        table.add_row(*map(printable, row.values()))
    plain_console().print(table)


def print_note(text: str) -> None:
    """Print a sentence, wrapped to the width of the terminal."""
    plain_console().print(printable(text))


def progress_bar(*, width: int = 0) -> Progress:
    """Make a progress bar that counts and says how long it will take.

    Args:
        width: Least width of the descriptions.
    """
    return Progress(
        TextColumn(f"{{task.description:{width or ''}}}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )


def at_least_one(text: str) -> int:
    """Read the value of an option that counts something.

    Raises:
        argparse.ArgumentTypeError: It is no whole number of at least 1.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def refuse_overwriting(outputs: Iterable[Path], inputs: Iterable[str | Path]) -> None:
    """Refuse to write to what a command reads.

    Args:
        outputs: Files to write, and folders to write into.
        inputs: Files and folders that are read. What does not exist, such as a Hub id, cannot be
            overwritten.

    Raises:
        ValueError: One is the other, by whatever path.
    """
    read = [path for path in map(Path, inputs) if path.exists()]
    for output in outputs:
        for path in read:
            if output.exists() and output.samefile(path):
                raise ValueError(
                    f"no output may be an input, got {output} for both: name another output folder."
                )


@contextmanager
def mistakes_in_one_line(
    prog: str, *, are_everywhere: bool = False, path_or_id: str = "path_or_id"
) -> Iterator[None]:
    """Turn a user's mistake into one line and exit status 2.

    Args:
        prog: The command, such as `"barl plan"`.
        path_or_id: What the command calls the argument of that name of `load_problems`.
        are_everywhere: Whether all processes of a launch make the same mistake: the first says it.
    """
    try:
        yield
    except (ValueError, OSError, ImportError) as error:
        said = " ".join(str(error).split()).replace("path_or_id", path_or_id)
        said = re.sub(r" (\w+_column)=", r" --\1 ", said)
        text = f"{prog}: {said}"
        raise Mistake(text, is_said=is_first_process() or not are_everywhere) from None
