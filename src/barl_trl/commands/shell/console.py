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
    """Print rows with the same columns, at least one, as a table.

    `align` is the alignment of all columns but the first: `"left"` or `"right"`.
    """
    table = Table(title=printable(title))
    for place, column in enumerate(rows[0]):
        is_right = align == "right" and place > 0
        table.add_column(column, overflow="fold", justify="right" if is_right else "left")
    for row in rows:
        table.add_row(*map(printable, row.values()))
    plain_console().print(table)


def print_note(text: str) -> None:
    """Print a sentence, wrapped to the width of the terminal."""
    plain_console().print(printable(text))


def progress_bar(*, width: int = 0, is_shown: bool = True) -> Progress:
    """Make a bar that shows the count and the time left; descriptions have at least `width`."""
    description = TextColumn(f"{{task.description:{width or ''}}}", markup=False)
    columns = description, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    return Progress(*columns, disable=not is_shown)


def at_least_one(text: str) -> int:
    """Read the value of an option that counts something.

    Raises:
        argparse.ArgumentTypeError: It is no whole number of at least 1.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def refuse_overwriting(outputs: Iterable[Path], inputs: Iterable[str | Path]) -> None:
    """Refuse to write to what a command reads; a Hub id among the inputs does not matter.

    Raises:
        ValueError: An output is an input, by whatever path.
    """
    existing = [path for path in map(Path, inputs) if path.exists()]
    for output in outputs:
        if output.exists() and any(output.samefile(path) for path in existing):
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
        are_everywhere: Whether all processes of a launch make the same mistake; then only the first
            one prints it.
        path_or_id: The command's name for `load_problems`'s argument `path_or_id`.
    """
    try:
        yield
    except BrokenPipeError:  # whoever read the output has gone
        raise
    except (ValueError, OSError, ImportError) as error:
        text = " ".join(str(error).split()).replace("path_or_id", path_or_id)
        text = re.sub(r" (\w+_column)=", r" --\1 ", text)
        is_said = is_first_process() or not are_everywhere
        raise Mistake(f"{prog}: {text}", is_said=is_said) from None
