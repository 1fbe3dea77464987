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
import re
from collections.abc import Callable, Iterator, Sequence
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
_PEEKED_BYTES = 1 << 24
"""Size of the largest file that is read twice: at once for its columns, and for its rows."""
_SPLITS_OF_A_FILE = re.compile(r"train(\[[^\[\]]*\])?(\+train(\[[^\[\]]*\])?)*")


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
    refuse_unusable_path(path)
    if path.is_file() and path.suffix in _TEXT_SUFFIXES:
        return _read_text_file(path, split)
    peek(path)  # `datasets` would print what it finds wrong, too
    # imported late: they take a second
    from datasets import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
        load_dataset,
    )
    from datasets.exceptions import DatasetGenerationError, DatasetNotFoundError
    from pyarrow import ArrowInvalid

    had_bars = not are_progress_bars_disabled()
    try:
        if path.exists():
            disable_progress_bars()  # they would stand before what is wrong with the data
        if path.is_file():
            return load_dataset("parquet", data_files=str(path), split=split)
        return load_dataset(path_or_id, config, split=split)
    except (ConnectionError, DatasetNotFoundError) as error:
        files = [one.name for one in Path().iterdir() if one.suffix in _SUFFIXES]
        near = difflib.get_close_matches(path.name, files, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "download it elsewhere and name its folder."
        raise ConnectionError(
            "path_or_id must be a local file or folder, or the id of a data set on the Hub, got "
            f"{path_or_id!r} ({error}): {hint}"
        ) from error
    except (DatasetGenerationError, ArrowInvalid) as error:
        reason = str(error.__cause__ or error)
        raise ValueError(
            f"path_or_id must name readable data, got {path_or_id} ({reason[:200]}): "
            "for mixed types name the JSONL or CSV file itself."
        ) from None
    finally:
        if had_bars:
            enable_progress_bars()


def refuse_unusable_path(path: Path) -> None:
    """Refuse a file of another kind, and one that does not exist: it would be taken for a Hub id.

    Raises:
        FileNotFoundError: A data file does not exist.
        ValueError: It is a file of another kind, a pipe or a device.
    """
    if path.is_dir():
        return
    if path.suffix in _SUFFIXES and not path.exists():
        folder = path.absolute().parent
        names = [one.name for one in folder.iterdir()] if folder.is_dir() else []
        near = difflib.get_close_matches(path.name, names, n=1)
        hint = f"did you mean {path.with_name(near[0])}?" if near else f"there is none in {folder}."
        raise FileNotFoundError(f"path_or_id must name an existing file, got {path}: {hint}")
    if regular(path).is_file() and path.suffix not in _SUFFIXES:
        raise ValueError(
            f"path_or_id must end in {', '.join(_SUFFIXES)}, got {path}: "
            "convert the file to JSON lines."
        )


def peek(path: Path, *splits: str) -> list[str] | None:
    """Return the columns of a local file, without `datasets`, whose import takes a second.

    Args:
        path: A path, or the id of a data set.
        *splits: The splits of it that will be loaded.

    Returns:
        The names of the columns; None for other data, and for a text file that is too large to be
        read twice.

    Raises:
        ValueError: The file cannot be read or has no rows, or there is no such split.
    """
    if path.suffix not in _SUFFIXES or not path.is_file():
        return None
    for split in splits:
        if not _SPLITS_OF_A_FILE.fullmatch(split):
            raise _no_split(path, split)
    if path.suffix == ".parquet":
        from pyarrow import ArrowInvalid, parquet  # imported late

        try:
            return parquet.read_schema(path).names
        except ArrowInvalid as error:
            raise ValueError(
                f"path_or_id must name readable data, got {path} ({error}): write it again."
            ) from None
    if path.stat().st_size > _PEEKED_BYTES:
        return None
    return _text_rows(path, lambda *_: {})[1]


def refuse_missing_column(field: str, name: str, columns: Sequence[str]) -> None:
    """Refuse a column that a data set does not have.

    Args:
        field: The setting that names the column, for the error message.
        name: Its value.
        columns: The columns that there are.

    Raises:
        ValueError: The column is none of them.
    """
    if name in columns:
        return
    near = difflib.get_close_matches(name, columns, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "name one of them, or leave it out."
    raise ValueError(
        f"{field} must name a column of train_dataset, got {name!r} with the columns "
        f"{[*columns]}: {hint}"
    )


def _read_text_file(path: Path, split: str) -> "Dataset":
    """Read a JSON array, JSON lines or CSV file, whose only split is `train`.

    Each column is text or messages, as its first cell is, or lists if a cell is a list of several
    texts or numbers. A row has None where it lacks the column or has something else; a line that
    cannot be read has None in all columns.
    """
    from datasets import Dataset, ReadInstruction

    rows, columns = _text_rows(path, _unreadable)
    try:
        data = Dataset.from_dict({c: _cells([row.get(c) for row in rows]) for c in columns})
    except ValueError:
        raise ValueError(
            f"{path} must have names of columns that are text, got {[*columns]!r:.80}: repair it."
        ) from None
    try:
        parts = ReadInstruction.from_spec(split).to_absolute({"train": len(rows)})
    except ValueError:
        raise _no_split(path, split) from None
    return data.select([i for part in parts for i in range(part.from_, part.to)])


def _text_rows(
    path: Path, unreadable: Callable[[Path, int, str], dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of a text file and the names of its columns.

    `unreadable` returns what stands for a line that holds no row.
    """
    read = _csv_rows if path.suffix == ".csv" else _json_rows
    records = list(read(path, unreadable))
    columns = [*dict.fromkeys(column for row in records for column in row)]
    if not columns:
        what = "no line of it is one" if records else "it is empty"
        raise ValueError(f"path_or_id must name a file with rows, got {path}: {what}.")
    return records, columns


def _no_split(path: Path, split: str) -> ValueError:
    return ValueError(
        f"split must be 'train' or slices of it for the file {path}, got {split!r}: for "
        "instance 'train[100:]' (`dataset_train_split`, `dataset_test_split` of `barl train`)."
    )


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


def _json_rows(path: Path, unreadable: Callable[..., dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON array or of JSON lines."""
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
            yield value if isinstance(value, dict) else unreadable(path, number, f"{value!r:.40}")
        except ValueError as error:
            yield unreadable(path, number, str(error))


def _csv_rows(path: Path, unreadable: Callable[..., dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a CSV file; one with more or fewer cells than the header is none."""
    reader = csv.DictReader(io.StringIO(read_text(path)))
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield unreadable(path, reader.line_num, str(error))
            continue
        is_whole = None not in row and None not in row.values()
        yield row if is_whole else unreadable(path, reader.line_num, "other cells: unquoted?")


def _unreadable(path: Path, line: int, reason: str) -> dict[str, Any]:
    """Return a row without cells, which will be skipped and counted."""
    logger.warning("%s:%d is no row of the data set: %s", path, line, reason)
    return {}
