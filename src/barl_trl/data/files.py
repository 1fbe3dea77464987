"""Rows of local files and of the Hub as they stand, and the names of their columns.

Local JSON and CSV files are read here and not by `datasets`, which infers a type for each column.
It turns the answer `123456789012345678901234567890` into the float 1.23e29 and `"2024-01-01"` into
a date, drops `NA`, and stops at a file whose answers are numbers in its first 10 MB and text later.
Here an answer is the text that the file has.
"""

import csv
import difflib
import io
import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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


def read_rows(
    path_or_id: str,
    split: str,
    config: str | None,
    find_texts: Callable[[Sequence[str]], Collection[str | None]],
) -> "Dataset":
    """Read a data set as it stands, from a local file or folder or from the Hub.

    Args:
        path_or_id: Its path, or its id on the Hub.
        split: The split, or slices of some.
        config: Its configuration; None: its only one.
        find_texts: Returns those columns, of all that JSON or CSV files have, that must be texts.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file cannot be read or has no rows, or there is no such split.
    """
    path = Path(path_or_id)
    refuse_unusable_path(path)
    if path.is_file() and path.suffix in _TEXT_SUFFIXES:
        return _read_text_files(path, {"train": [path_or_id]}, split, find_texts)
    peek(path)  # `datasets` would print what it finds wrong, too
    # imported late: they take a second
    from datasets import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
        load_dataset,
        load_dataset_builder,
    )
    from datasets.exceptions import DatasetGenerationError, DatasetNotFoundError
    from pyarrow import ArrowInvalid

    had_bars = not are_progress_bars_disabled()
    try:
        if path.exists():
            disable_progress_bars()  # they would stand before what is wrong with the data
        if path.is_file():
            return load_dataset("parquet", data_files=str(path), split=split)
        if path.is_dir():
            by_split: Any = load_dataset_builder(path_or_id, config).config.data_files
            names = [name for of_split in by_split.values() for name in of_split]
            if all(name.endswith(_TEXT_SUFFIXES) for name in names):
                return _read_text_files(path, by_split, split, find_texts)
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


def _read_text_files(
    path: Path,
    files: Mapping[str, Sequence[str]],
    split: str,
    find_texts: Callable[[Sequence[str]], Collection[str | None]],
) -> "Dataset":
    """Read JSON arrays, JSON lines or CSV files.

    A line that cannot be read has None in all columns.

    Args:
        path: What the user named: the file or its folder.
        files: The files of each split.
        split: The split, or slices of some.
        find_texts: As in [`read_rows`].
    """
    from datasets import Dataset, ReadInstruction

    rows: dict[str, list[dict[str, Any]]] = {}
    columns: dict[str, None] = {}
    for name, names in files.items():
        read = [_text_rows(Path(file), _unreadable) for file in names]
        rows[str(name)] = [row for of_file, _ in read for row in of_file]
        columns |= dict.fromkeys(column for _, of_file in read for column in of_file)
    try:
        parts = ReadInstruction.from_spec(split).to_absolute({n: len(r) for n, r in rows.items()})
    except ValueError:
        raise _no_split(path, split, [*rows]) from None
    chosen = [row for part in parts for row in rows[part.splitname][part.from_ : part.to]]
    texts = find_texts([*columns])
    cells = {column: [row.get(column) for row in chosen] for column in columns}
    try:
        return Dataset.from_dict(
            {c: _texts(cells[c]) if c in texts else _values(cells[c]) for c in columns}
        )
    except ValueError:
        raise ValueError(
            f"{path} must have names of columns that are text, got {[*columns]!r:.80}: repair it."
        ) from None


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


def _no_split(path: Path, split: str, names: Sequence[str] = ("train",)) -> ValueError:
    return ValueError(
        f"split must be {' or '.join(map(repr, names))} or slices of it for {path}, got {split!r}: "
        f"for instance '{names[0]}[100:]' (`dataset_train_split`, `dataset_test_split` of `barl "
        "train`)."
    )


def messages_of(value: Any) -> list[dict[str, str]] | None:
    """Return the roles and texts of the messages that a cell holds; None if it holds none."""
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        return None
    messages = [{name: message.get(name) for name in ("role", "content")} for message in value]
    texts = [text for message in messages for text in message.values()]
    return messages if messages and all(isinstance(text, str) for text in texts) else None


def _texts(cells: list[Any]) -> list[Any]:
    """Return the cells of a column as messages if the first holds some, else as texts.

    A cell that holds neither is None.
    """
    first = next((cell for cell in cells if cell is not None), None)
    return [*map(messages_of if messages_of(first) else plain_text, cells)]


def _values(cells: list[Any]) -> Any:
    """Return the cells of a column as texts, or as they stand if some are lists or objects.

    Beside lists of texts and numbers, one alone is a list of one. What has no common type becomes
    text: the items of such lists, and other cells as JSON.
    """
    if not any(isinstance(cell, list | dict) for cell in cells):
        return [*map(plain_text, cells)]
    from datasets import Dataset

    lists = [cell if cell is None or isinstance(cell, list) else [cell] for cell in cells]
    is_flat = not any(isinstance(item, list | dict) for cell in lists for item in cell or ())
    texts = [json.dumps(cell, default=float) for cell in (lists if is_flat else cells)]
    try:
        return Dataset.from_dict({"_": [*map(parse_json, texts)]}).data.column(0)
    except (ArithmeticError, RuntimeError, TypeError, ValueError):  # mixed, too large or too deep
        if is_flat:
            return [cell and [*map(plain_text, cell)] for cell in lists]
        return [None if text == "null" else text for text in texts]


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
