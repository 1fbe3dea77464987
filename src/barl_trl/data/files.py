"""Rows of local files and of the Hub as they stand, and the names of their columns.

Local JSON and CSV files are read here and not by `datasets`, which infers a type for each column.
It turns the answer `123456789012345678901234567890` into the float 1.23e29 and `"2024-01-01"` into
a date, drops `NA`, and stops at a file whose answers are numbers in its first 10 MB and text later.
Here an answer is the text that the file has.
"""

import csv
import difflib
import io
import logging
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..hypotheses import plain_text
from ..report.json_files import parse_json, read_text, regular

if TYPE_CHECKING:
    from datasets import Dataset

logger = logging.getLogger(__name__)

_parse = partial(parse_json, parse_float=Decimal)  # an answer 0.10 or 1e-7 keeps its digits
_TEXT_SUFFIXES = (".jsonl", ".json", ".csv")
_SUFFIXES = (*_TEXT_SUFFIXES, ".parquet")


def find_column(
    columns: Sequence[str],
    option: str,
    wanted: str | None,
    candidates: Sequence[str],
    *,
    taken: str | None = None,
) -> str:
    """Find the column that the value of an option names, or the first of the candidates.

    Case does not matter. A ValueError says that there is none, beside the `taken` one.
    """
    free = {column.lower(): column for column in columns if column != taken}
    names = candidates if wanted is None else [wanted]
    for name in names:
        if name in columns and name != taken:
            return name
        if name.lower() in free:
            return free[name.lower()]
    close = (difflib.get_close_matches(name.lower(), free, n=1) for name in names)
    nearest = [free[match] for matches in close for match in matches]
    nearest = nearest or [*free.values()] * (len(free) == 1)
    hint = f"did you mean {option}={nearest[0]!r}?" if nearest else f"name the one with {option}."
    raise ValueError(
        f"{option} must be a column of the data set, got {wanted or ' | '.join(candidates)!r} "
        f"with columns {', '.join(columns)}: {hint}"
    )


def read_rows(path_or_id: str, split: str, config: str | None) -> "Dataset":
    """Read a data set as it stands, from a local file or folder or from the Hub.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file cannot be read or has no rows, or there is no such split.
    """
    path = Path(path_or_id)
    if not path.is_dir() and regular(path).is_file():
        if path.suffix not in _SUFFIXES:
            raise ValueError(
                f"path_or_id must end in {', '.join(_SUFFIXES)}, got {path_or_id}: "
                "convert the file to JSON lines."
            )
        if path.suffix in _TEXT_SUFFIXES:
            return _read_text_file(path, split)
    refuse_missing_file(path)
    # imported late: they take a second
    from datasets import load_dataset
    from datasets.exceptions import DatasetGenerationError
    from pyarrow import ArrowInvalid

    try:
        if path.is_file():
            return load_dataset("parquet", data_files=str(path), split=split)
        return load_dataset(path_or_id, config, split=split)
    except (DatasetGenerationError, ArrowInvalid) as error:
        reason = str(error.__cause__ or error)
        raise ValueError(
            f"path_or_id must name readable data, got {path_or_id} ({reason[:200]}): "
            "for mixed types name the JSONL or CSV file itself."
        ) from None


def refuse_missing_file(path: Path) -> None:
    """Refuse the name of a data file that does not exist, which would be taken for a Hub id."""
    if path.suffix in _SUFFIXES and not path.exists():
        raise FileNotFoundError(
            f"path_or_id must name an existing file, got {path}: there is none in "
            f"{path.absolute().parent}."
        )


def _read_text_file(path: Path, split: str) -> "Dataset":
    """Read a JSON array, JSON lines or CSV file, whose only split is `train`.

    Each column is text or messages, as its first cell is, or lists if a cell is a list of several
    texts or numbers. A row has None where it lacks the column or has something else; a line that
    cannot be read has None in all columns.
    """
    from datasets import Dataset, ReadInstruction

    rows = list(_csv_rows(path) if path.suffix == ".csv" else _json_rows(path))
    columns = dict.fromkeys(column for row in rows for column in row)
    if not columns:
        what = "no line of it is one" if rows else "it is empty"
        raise ValueError(f"path_or_id must name a file with rows, got {path}: {what}.")
    try:
        data = Dataset.from_dict({c: _cells([row.get(c) for row in rows]) for c in columns})
    except ValueError:
        raise ValueError(
            f"{path} must have names of columns that are text, got {[*columns]!r:.80}: repair it."
        ) from None
    try:
        parts = ReadInstruction.from_spec(split).to_absolute({"train": len(rows)})
    except ValueError:
        raise ValueError(
            f"split must be 'train' or slices of it for the file {path}, got {split!r}: for "
            "instance 'train[100:]' (`dataset_train_split`, `dataset_test_split` of `barl train`)."
        ) from None
    return data.select([i for part in parts for i in range(part.from_, part.to)])


def messages_of(value: Any) -> list[dict[str, str]] | None:
    """Return the roles and texts of the messages that a cell holds; None if it holds none."""
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        return None
    messages = [{name: message.get(name) for name in ("role", "content")} for message in value]
    texts = [text for message in messages for text in message.values()]
    return messages if messages and all(isinstance(text, str) for text in texts) else None


def _cells(column: list[Any]) -> list[Any]:
    """Return a column's cells as text, as messages if its first cell holds some, or as lists."""
    first = next((cell for cell in column if cell is not None), None)
    if messages_of(first) is not None:
        return [messages_of(cell) for cell in column]
    lists = [cell if isinstance(cell, list) else [cell] for cell in column]
    items = [item for cell in lists for item in cell]
    are_several = any(len(cell) > 1 for cell in lists)
    if not are_several or any(isinstance(item, dict | list) for item in items):
        return [plain_text(cell) for cell in column]
    are_numbers = all(isinstance(item, int | float | Decimal) for item in items)
    are_whole = all(isinstance(item, int) for item in items)
    read = int if are_whole else float if are_numbers else plain_text
    return [None if cell == [None] else [read(item) for item in cell] for cell in lists]


def _json_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON array or of JSON lines, `{}` for a line that holds none."""
    text = read_text(path)
    if text.lstrip().startswith("["):
        try:
            lines = enumerate(_parse(text), 1)
        except ValueError as error:
            raise ValueError(f"{path} must hold JSON, got {error}: repair the file.") from None
    else:
        lines = ((i, line) for i, line in enumerate(text.split("\n"), 1) if line.strip())
    for number, row in lines:
        try:
            value = _parse(row) if isinstance(row, str) else row
            yield value if isinstance(value, dict) else _unreadable(path, number, f"{value!r:.40}")
        except ValueError as error:
            yield _unreadable(path, number, str(error))


def _csv_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a CSV file, `{}` for a row with another number of cells than the header."""
    reader = csv.DictReader(io.StringIO(read_text(path)))
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield _unreadable(path, reader.line_num, str(error))
            continue
        is_whole = None not in row and None not in row.values()
        yield row if is_whole else _unreadable(path, reader.line_num, "other cells: unquoted?")


def _unreadable(path: Path, line: int, reason: str) -> dict[str, Any]:
    """Return a row without cells, which will be skipped and counted."""
    logger.warning("%s:%d is no row of the data set: %s", path, line, reason)
    return {}
