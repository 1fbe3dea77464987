"""The rows of a data set as they stand: files of any kind, the way into a cell, what is where.

Local JSON and CSV files are read here and not by `datasets`, which infers a type for each column:
it rounds long answers to floats, makes dates of `"2024-01-01"`, drops `NA`, and stops at a file
whose answers are numbers in its first 10 MB and text later. Here an answer is the file's own text.
"""

import csv
import io
import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .graders.choices import LETTERS
from .hypotheses import parsed, plain_text

if TYPE_CHECKING:
    from datasets import Dataset  # imported late elsewhere: it takes a second

logger = logging.getLogger(__name__)

_TEXT_FILES = re.compile(r"\.(?:jsonl|json|csv)(?:\.(?:gz|bz2|xz|zst))?\Z")
_ROLES = {"human": "user", "gpt": "assistant", "function_call": "assistant", "observation": "tool"}
_LISTS = ("options", "choices", "endings", "answer_choices")
_OPTION = re.compile(r"(|op|option|choice|answer|ending|sol)[_ ]?([A-J]|[a-j]|\d)")
_RIGHT = re.compile(r"(?:correct|best|right)[_ ]answer", re.IGNORECASE)
_WRONG = re.compile(r"(?:(?:incorrect|wrong)[_ ]answers?|distractor)[_ ]?\d*", re.IGNORECASE)


def read_rows(path_or_id: str, split: str, config: str | None) -> "Dataset":
    """Read a data set as it stands."""
    from datasets import load_dataset, load_dataset_builder
    from datasets.exceptions import DatasetGenerationError

    path = Path(path_or_id)
    is_parquet, is_text = ".parquet" in path.suffixes, bool(_TEXT_FILES.search(path.name))
    if (is_parquet or is_text) and not path.exists():  # it would be taken for a Hub id
        raise FileNotFoundError(f"path_or_id must name an existing file, got {path}.")
    if path.is_file() and is_text:
        return _read_text_files({"train": [path_or_id]}, split)
    if path.is_file() and not is_parquet:
        kinds = ".jsonl, .json, .csv, .parquet"
        raise ValueError(f"path_or_id must end in {kinds}, perhaps compressed, got {path}.")
    try:
        if path.is_file():
            return load_dataset("parquet", data_files=str(path), split=split)
        if path.is_dir():
            files: Any = load_dataset_builder(path_or_id, config).config.data_files
            if all(_TEXT_FILES.search(name) for names in files.values() for name in names):
                return _read_text_files(files, split)
        return load_dataset(path_or_id, config, split=split)
    except (DatasetGenerationError, ValueError) as error:  # the first does not say why
        raise ValueError(f"{path} must be readable, got {error.__cause__ or error}.") from None


def _read_text_files(files: Mapping[Any, Any], split: str) -> "Dataset":
    """Read JSON or CSV files; a line that is no row has None in all columns."""
    from datasets import Dataset, ReadInstruction, concatenate_datasets

    rows = {str(name): [row for file in of for row in _rows_of(file)] for name, of in files.items()}
    columns = [*dict.fromkeys(column for of in rows.values() for row in of for column in row)]
    if not columns:
        raise ValueError(f"path_or_id must name a file with rows, got {[*files.values()]}.")
    instruction = ReadInstruction.from_spec(split)
    parts = instruction.to_absolute({name: len(of) for name, of in rows.items()})
    chosen = [row for part in parts for row in rows[part.splitname][part.from_ : part.to]]
    made = [_column(name, [row.get(name) for row in chosen]) for name in columns]
    return concatenate_datasets(made, axis=1) if chosen else Dataset.from_dict({})


def _rows_of(file: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file; a line that is none is named in a warning, and has no cells."""
    import fsspec

    try:
        if file.endswith(".zst") and "zstd" not in fsspec.available_compressions():
            raise ValueError("zstandard is not installed: pip install zstandard")
        with fsspec.open(file, "rb", compression="infer") as opened:
            text = opened.read().decode("utf-8-sig")
        lines = _csv_rows(text) if ".csv" in Path(file).suffixes else _json_rows(text)
        for line, row in lines:
            if isinstance(row, str):
                logger.warning("%s:%d is no row of the data set: %s", file, line, row)
            yield {} if isinstance(row, str) else row
    except (OSError, EOFError, RecursionError, ValueError) as error:  # or a UnicodeDecodeError
        raise ValueError(f"{file} must be readable, got {error}.") from None


def _json_rows(text: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Yield the objects of an array, of JSON lines or of `{"data": [...]}`, or what is wrong.

    A row that is an array has the columns 0, 1, and so on.
    """
    parse = partial(json.loads, parse_float=Decimal)  # an answer 0.10 or 1e-7 keeps its digits
    try:
        whole = parse(text)
    except (RecursionError, ValueError):
        if text.lstrip().startswith("["):
            raise
        whole = None
    if isinstance(whole, dict):
        lists = [whole[name] for name in ("data", "examples", "rows") if name in whole]
        whole = lists[0] if lists and isinstance(lists[0], list) else [whole]
    for line, item in enumerate(text.split("\n") if whole is None else whole, 1):
        try:
            if whole is not None or item.strip():
                row = parse(item) if whole is None else item
                if isinstance(row, list) and isinstance(whole, list):
                    row = {str(place): cell for place, cell in enumerate(row)}
                yield line, row if isinstance(row, dict) else f"{row!r:.40}"
        except (RecursionError, ValueError) as error:
            yield line, str(error)


def _csv_rows(text: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    reader = csv.DictReader(io.StringIO(text))
    while True:
        try:
            row = next(reader)
            is_whole = None not in row and None not in row.values()
            yield reader.line_num, row if is_whole else "other cells than the header: unquoted?"
        except csv.Error as error:  # a cell of more than 128 KiB
            yield reader.line_num, str(error)
        except StopIteration:
            return


def _column(name: str, cells: list[Any]) -> "Dataset":
    """Return a column of cells: as texts, or as they stand if some are lists or objects."""
    from datasets import Dataset, Features, Json

    if not any(isinstance(cell, list | dict) for cell in cells):
        return Dataset.from_dict({name: [*map(plain_text, cells)]})
    if any(isinstance(cell, list) for cell in cells):  # one alone beside lists of some
        cells = [cell if cell is None or isinstance(cell, list) else [cell] for cell in cells]
    cells = json.loads(json.dumps(cells, default=float))
    try:
        return Dataset.from_dict({name: cells}, on_mixed_types="use_json")
    except (ArithmeticError, RuntimeError, TypeError, ValueError):  # too large or too deep
        return Dataset.from_dict({name: cells}, features=Features({name: Json()}))


# The way into a cell


def cells_at(rows: "Dataset", path: str) -> list[Any] | None:
    r"""Return what a path leads to in each row; None if its column does not exist.

    A path such as `reward_model.ground_truth` goes through objects, lists (by their numbers; those
    of one item by themselves) and JSON in texts. One with `{names}` of columns is a text that has
    their cells in it, such as `"{context}\n\n{question}"`.
    """
    names = {name.lower(): name for name in rows.column_names}
    names |= {name: name for name in rows.column_names}
    if "{" in path:
        parts = re.split(r"\{([^{}]+)\}", path)
        found = {part: cells_at(rows, part) for part in parts[1::2]}
        if not any(found.values()):
            return None
        texts = [found[part] or ["{" + part + "}"] * len(rows) for part in parts[1::2]]
        cells = zip(*(map(_listed, of) for of in texts), strict=True)
        return [parts[0] + "".join(map("".join, zip(c, parts[2::2], strict=True))) for c in cells]
    column, *keys = [path] if path.lower() in names else path.split(".")
    column = names.get(column) or names.get(column.lower())
    return None if column is None else [_inside(cell, keys) for cell in rows[column]]


def _inside(cell: Any, keys: Sequence[str]) -> Any:
    """Return what keys, one behind the other, lead to in a cell; None for nothing."""
    for key in keys:
        cell = parsed(cell)
        if isinstance(cell, list) and len(cell) == 1 and not key.isdigit():
            cell = parsed(cell[0])
        if isinstance(cell, list):
            cell = cell[int(key)] if key.isdigit() and int(key) < len(cell) else None
        else:
            cell = cell.get(key) if isinstance(cell, dict) else None
    return cell


def _listed(cell: Any) -> str:
    return ", ".join(filter(None, map(plain_text, cell if isinstance(cell, list) else [cell])))


def paths_of(cell: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the paths into a cell, and what they lead to."""
    inside = parsed(cell)
    if isinstance(inside, dict):
        for key, value in inside.items():
            yield from paths_of(value, f"{path}.{key}")
    else:
        yield path, cell


def messages_of(cell: Any) -> list[dict[str, Any]] | None:
    """Return the messages that a cell holds, with all their keys; None if it holds none.

    Those of ShareGPT's form, `from` and `value`, become messages with a role and a content. Keys
    that are only null, which tables give to all rows, are left out.
    """
    if not isinstance(cell, list) or not all(isinstance(message, dict) for message in cell):
        return None
    messages = []
    for message in cell:
        if isinstance(message.get("from"), str) and "value" in message:
            others = {key: message[key] for key in message if key not in ("from", "value")}
            role = _ROLES.get(message["from"], message["from"])
            message = {"role": role, "content": message["value"]} | others
        content = message.get("content")
        is_said = isinstance(content, str) or bool(content or message.get("tool_calls"))
        if not isinstance(message.get("role"), str) or not is_said:
            return None
        messages.append(without_nulls(message) | {"content": content})
    return messages or None


def without_nulls(value: Any) -> Any:
    """Return lists and objects without the keys that are null."""
    if isinstance(value, list):
        return [*map(without_nulls, value)]
    if not isinstance(value, dict):
        return value
    return {key: without_nulls(one) for key, one in value.items() if one is not None}


# Multiple choice


def find_options(rows: "Dataset") -> tuple[list[str], list[dict[str, str] | None]]:
    """Return the columns of the options, and each row's options: label -> text; None for none.

    Options are a list of texts, with or without labels, or a column each. Those of one right and
    some wrong ones stand in the order of their texts.
    """
    names = rows.column_names
    for name in names:
        if name.lower() in _LISTS:
            found = [_options_in(cell) for cell in rows[name]]
            if any(found):
                return [name], found
            if any(isinstance(cell, str) and cell.strip() for cell in rows[name]):
                raise ValueError(
                    f"options must be a list of texts, got {rows[name][0]!r:.60} in the column "
                    f"{name!r}: name the problem with --problem_column '{{problem}} {{{name}}}'."
                )
    wrong = [name for name in names if _WRONG.fullmatch(name)]
    right = [name for name in names if _RIGHT.fullmatch(name)]
    if wrong and right:
        cells = zip(*(map(plain_text, rows[name]) for name in (right[0], *wrong)), strict=True)
        return [right[0], *wrong], [_lettered(sorted(filter(None, texts))) for texts in cells]
    families: dict[str, dict[str, str]] = {}
    for name in names:
        if (match := _OPTION.fullmatch(name)) and (match[1] or match[2].isupper()):
            families.setdefault(match[1], {})[match[2]] = name
    for stem, family in families.items():
        first = min(family)
        is_row = [*sorted(family)] == [chr(ord(first) + k) for k in range(len(family))]
        if is_row and first in "Aa01" and len(family) > (1 if stem else 2):
            labels = sorted(family)
            cells = zip(*(map(plain_text, rows[family[label]]) for label in labels), strict=True)
            found = [dict(zip(labels, map(str, texts), strict=True)) for texts in cells]
            return [family[label] for label in labels], [*found]
    return [], [None] * len(rows)


def _lettered(texts: Sequence[str]) -> dict[str, str] | None:
    return dict(zip(LETTERS, texts, strict=False)) if len(texts) > 1 else None


def _options_in(cell: Any) -> dict[str, str] | None:
    """Return the options in a cell: a list of texts or objects, an object of lists or of texts."""
    cell = parsed(cell)
    if isinstance(cell, dict) and isinstance(cell.get("text"), list):
        labels = cell.get("label") or LETTERS
        return dict(zip(labels, map(str, cell["text"]), strict=False)) or None
    if isinstance(cell, dict):
        texts = {label: plain_text(text) for label, text in cell.items()}
        kept = {label: text for label, text in texts.items() if text is not None}
        return kept if len(kept) > 1 and all(len(label) == 1 for label in kept) else None
    if not isinstance(cell, list):
        return None
    if all(isinstance(item, dict) for item in cell):
        labels = [item.get("label", item.get("key")) for item in cell]
        texts = [plain_text(item.get("text", item.get("value"))) for item in cell]
        is_labelled = bool(cell) and None not in (*labels, *texts)
        return dict(zip(map(str, labels), map(str, texts), strict=True)) if is_labelled else None
    texts = [plain_text(item) or "" for item in cell]
    marked = [re.match(rf"\(?{a}[).:] *", text) for a, text in zip(LETTERS, texts, strict=False)]
    if texts and all(marked):  # `A) 21`
        texts = [text[mark.end() :] for text, mark in zip(texts, marked, strict=True) if mark]
    return _lettered(texts) if all(texts) else None
