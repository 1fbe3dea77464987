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
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .graders.choices import LETTERS
from .hypotheses import is_truth, parsed, plain_text, truth_answer

if TYPE_CHECKING:
    from datasets import Dataset  # imported late elsewhere: it takes a second

logger = logging.getLogger(__name__)

# where the problem and the true answer may stand, in this order: columns, or paths into their cells
PROBLEMS = ("problem", "question", "prompt", "query", "question_stem", "messages")
PROBLEMS += ("conversations", "0.value")
ANSWERS = ("answer", "final_answer", "expected_answer", "ground_truth", "answer_number")
ANSWERS += ("answer.value", "reward_model.ground_truth", "verification_info.ground_truth")
ANSWERS += ("verification_info.answer.value", "1.ground_truth.value", "solution")
# which of the options is right
CHOSEN = ("answer_letter", "answerkey", "answer_key", "answer_idx", "answer_index", "answer")
CHOSEN += ("correct_option", "correct_answer", "correct answer", "correct", "label", "cop", "gold")
CHOSEN += ANSWERS[1:]
PASSAGES = ("passage", "context", "article", "body", "premise", "story", "system", "system_prompt")

_LIKELY = {
    "problem_column": r"question|problem|prompt|query|instruct|input|goal|sentence|ctx|messages",
    "answer_column": r"answer|truth|gold|target|label|solution|correct|result|response",
}
_UNLIKELY = re.compile(r"type|(?:^|_)id|source|url|generat|output|^r1|attempt|start", re.IGNORECASE)
PLACEHOLDER = re.compile(
    r"n/?a|none|null|nan|not ?found|unknown|tbd|todo|see (?:the )?(?:solution|above|proof)|proof"
    r"|\?+|-+|\.+",
    re.IGNORECASE,
)
_CODE = re.compile(r"\b(?:def|import|return) \w|\bprint\(|#include\b|<tool_call>")

_NAMED = re.compile(r"(?<![\\\w}])\{([^{}]+)\}")  # not braces of TeX
_TEXT_FILES = re.compile(r"\.(?:jsonl|json|csv)(?:\.(?:gz|bz2|xz|zst))?\Z")
_ROLES = {"human": "user", "gpt": "assistant", "function_call": "assistant", "observation": "tool"}
_LISTS = ("options", "choices", "endings", "answer_choices", "answer_options", "possible_answers")
_OPTION = re.compile(r"((?=[A-J])|(?i:op|option|choice|answer|ending|sol))[_ ]?([A-J]|[a-j]|\d)")
_RIGHT = re.compile(r"correct[_ ]answer", re.IGNORECASE)
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
    try:
        if path.is_file() and not is_parquet:
            raise ValueError("it must end in .jsonl, .json, .csv or .parquet")
        if path.is_file():
            return load_dataset("parquet", data_files=str(path), split=split)
        if path.is_dir():
            files: Any = load_dataset_builder(path_or_id, config).config.data_files
            if all(_TEXT_FILES.search(name) for names in files.values() for name in names):
                return _read_text_files(files, split)
        return load_dataset(path_or_id, config, split=split)
    except (DatasetGenerationError, ValueError) as error:  # the first does not say why
        why = error.__cause__ or error
        raise ValueError(f"path_or_id must be readable, got {path_or_id}: {why}.") from None


def _read_text_files(files: Mapping[Any, Any], split: str) -> "Dataset":
    """Read JSON or CSV files; a line that is no row has None in all columns."""
    from datasets import Dataset, ReadInstruction

    rows = {str(name): [row for file in of for row in _rows_of(file)] for name, of in files.items()}
    named = dict.fromkeys(column for of in rows.values() for row in of for column in row)
    columns = [column for column in named if "\0" not in column]  # Arrow would cut the name
    if not columns:
        raise ValueError(f"path_or_id must name a file with rows, got {[*files.values()]}.")
    instruction = ReadInstruction.from_spec(split)
    parts = instruction.to_absolute({name: len(of) for name, of in rows.items()})
    chosen = [row for part in parts for row in rows[part.splitname][part.from_ : part.to]]
    return Dataset.from_dict({c: _values([row.get(c) for row in chosen]) for c in columns})


def _rows_of(file: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file; a line that is none is named in a warning, and has no cells."""
    import fsspec

    try:
        if file.endswith(".zst") and "zstd" not in fsspec.available_compressions():
            raise ValueError("zstandard is not installed: pip install zstandard")
        reader: Any = fsspec.open(file, "rb", compression="infer")
        with reader as opened:
            text = opened.read().decode("utf-8-sig")
        lines = _csv_rows(text) if ".csv" in Path(file).suffixes else _json_rows(text)
        for line, row in lines:
            if not isinstance(row, dict):
                logger.warning("%s:%d is no row of the data set: %.90s", file, line, row)
            yield row if isinstance(row, dict) else {}
    except (OSError, EOFError, RecursionError, ValueError) as error:  # or a UnicodeDecodeError
        raise ValueError(f"{file} must be readable, got {error}.") from None


def _json_rows(text: str) -> Iterator[tuple[int, Any]]:
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
        kinds = {tuple(row) if isinstance(row, dict) else None for row in whole.values()}
        are_rows = len(kinds - {None}) == len(kinds) == 1 < len(whole)  # by their names
        whole = [*whole.values()] if are_rows else [whole]
        whole = lists[0] if lists and isinstance(lists[0], list) else whole
    is_array = isinstance(whole, list)  # a number alone is a line
    items: Any = whole if is_array else text.split("\n")
    for line, item in enumerate(items, 1):
        try:
            if is_array:
                is_list = isinstance(item, list)
                yield line, {str(n): cell for n, cell in enumerate(item)} if is_list else item
            elif item.strip():
                yield line, parse(item)
        except (RecursionError, ValueError) as error:
            yield line, error


def _csv_rows(text: str) -> Iterator[tuple[int, Any]]:
    header = text.partition("\n")[0]
    separator = "," if "," in header else max(",;\t", key=header.count)
    reader, row = csv.DictReader(io.StringIO(text), delimiter=separator), {}
    while row is not None:
        try:
            if row := next(reader, None):
                is_whole = None not in row and None not in row.values()
                yield reader.line_num, row if is_whole else "other cells than the header: unquoted?"
        except csv.Error as error:  # a cell of more than 128 KiB
            yield reader.line_num, str(error)


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
        return Dataset.from_dict({"_": [*map(json.loads, texts)]}).data.column(0)
    except (ArithmeticError, RuntimeError, TypeError, ValueError):  # mixed, too large or too deep
        if is_flat:
            return [cell and [*map(plain_text, cell)] for cell in lists]
        pairs = zip(cells, texts, strict=True)
        return [plain_text(c) if isinstance(c, str | None) else text for c, text in pairs]


# The way into a cell


def cells_at(rows: "Dataset", path: str) -> list[Any] | None:
    r"""Return what a path leads to in each row; None if it leads nowhere.

    A path such as `reward_model.ground_truth` goes through objects, lists (by their numbers; those
    of one item by themselves) and JSON in texts. One with `{names}` of columns is a text that has
    their cells in it, such as `"{context}\n\n{question}"`.
    """
    if "{" in path:
        of = {name: cells_at(rows, name) for name in _NAMED.findall(path)}
        if not of or None in of.values():
            return None
        listed = {name: [*map(_listed, cells or ())] for name, cells in of.items()}
        return [_NAMED.sub(lambda m, k=k: listed[m[1]][k], path) for k in range(len(rows))]
    names = {name.lower(): name for name in rows.column_names} | {n: n for n in rows.column_names}
    column, *keys = [path] if path.lower() in names else path.split(".")
    column = names.get(column) or names.get(column.lower())
    cells = [_inside(cell, keys) for cell in rows[column]] if column else []
    return cells if column and (not keys or any(cell is not None for cell in cells)) else None


def _inside(cell: Any, keys: Sequence[str]) -> Any:
    """Return what keys, one behind the other, lead to in a cell; None for nothing."""
    for key in keys:
        cell = parsed(cell)
        if isinstance(cell, list) and len(cell) == 1 and not key.isdigit():
            cell = parsed(cell[0])
        if isinstance(cell, list):
            cell = {str(place): item for place, item in enumerate(cell)}
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


# Which column holds what


def first_column(
    rows: "Dataset", option: str, paths: Sequence[str], read: Any, taken: str = ""
) -> tuple[str, list[Any]]:
    """Return the first of the paths with something to read, else the first, and what is read."""
    found: list[tuple[str, list[Any]]] = []
    for path in paths:
        if path != taken and (cells := cells_at(rows, path)) is not None:
            found.append((path, read(path, cells)))
            if any(found[-1][1]):
                return found[-1]
    hint = _hint(rows, option, taken)
    if found and (option == "answer_column" or not hint.startswith("try")):
        return found[0]
    got = repr(paths[0]) if len(paths) == 1 else "none of the usual ones"
    raise ValueError(
        f"{option} must be a column of the data set, or a path, got {got} with the columns "
        f"{', '.join(rows.column_names)}: {hint}."
    )


def _hint(rows: "Dataset", option: str, taken: str) -> str:
    """Return what to write: the columns whose first cells are problems, or usable true answers."""
    likely, found = re.compile(_LIKELY[option], re.IGNORECASE), Counter[str]()
    first = rows.select(range(min(len(rows), 20)))
    for path, cell in (pair for row in first for name in row for pair in paths_of(row[name], name)):
        key = re.sub(r"\.(text|value)$", "", path).rpartition(".")[2]
        if path == taken or not likely.search(key) or _UNLIKELY.search(key):
            continue
        if option == "answer_column":
            found[path] += is_truth(truth_answer(cell)) and not why_none(truth_answer(cell))
        else:
            found[path] += bool(problem_text(*questions(path, [cell])))
    names = [shlex.quote(path) for path, count in found.items() if 2 * count >= len(first)]
    if not names:
        return f"name it with --{option}, or write a text with {{columns}} in it"
    return f"try --{option} {' or '.join(names[:4])}"


def questions(path: str, cells: Sequence[Any]) -> list[Any]:
    """Return problems' messages or texts; whole conversations end at the user's last message."""
    is_whole = path.rpartition(".")[2].lower() in ("messages", "conversations")
    found: list[Any] = []
    for cell in cells:
        messages = messages_of(parsed(cell)) or []
        while is_whole and len(messages) > 1 and messages[-1]["role"] == "assistant":
            messages.pop()
        found.append(messages or plain_text(cell))
    return found


def problem_text(cell: Any) -> str:
    """Return the problem in a cell: its text, or the last message if it is the user's; else ''."""
    if isinstance(cell, list):
        cell = cell[-1]["content"] if cell[-1]["role"] == "user" else None
        parts = cell if isinstance(cell, list) else ()  # the trainer makes one text of them
        if parts and all(isinstance(p, dict) and isinstance(p.get("text"), str) for p in parts):
            cell = "".join(part["text"] for part in parts)
    return cell.strip() if isinstance(cell, str) else ""


def why_none(answer: str) -> str | None:
    """Return why a text is no true answer, though it is one line of balanced text."""
    if PLACEHOLDER.fullmatch(answer):
        return "placeholder"
    if _CODE.search(answer):
        return "code"
    of_words = len(re.findall(r"(?<!\\)\b[^\W\d_]{2,}", answer))
    is_said = re.search(r"(?i)\b(?:is|are|gets?|gives?|equals)\b.*\d", answer)
    most = 3 if "=" in answer else 4 if answer.endswith((".", "!", "?")) else 14
    return "sentence" if is_said or of_words > most else None


# Multiple choice


def find_options(rows: "Dataset", of_problem: str) -> list[dict[str, str] | None]:
    """Return each row's options that are not in its problem yet: label -> text; None for none.

    Options are a list of texts, with or without labels, or a column each. Those of one right and
    some wrong ones stand in the order of their texts.
    """
    names = [name for name in rows.column_names if f"{{{name}}}" not in of_problem]
    for name in (name for name in names if name.lower() in _LISTS):
        found = [_options_in(cell) for cell in rows[name]]
        if any(found):
            return found
        if any(isinstance(cell, str) and cell.strip() for cell in rows[name]):
            raise ValueError(
                f"options must be a list of texts, got {rows[name][0]!r:.60} in the column "
                f"{name!r}: name the problem with --problem_column '{{{of_problem}}} {{{name}}}'."
            )
    wrong, right = ([name for name in names if of.fullmatch(name)] for of in (_WRONG, _RIGHT))
    if wrong and right:
        cells = zip(*(rows[name] for name in (right[0], *wrong)), strict=True)
        lists = [
            [c for one in of for c in (one if isinstance(one, list) else [one])] for of in cells
        ]
        return [_by_label(sorted(filter(None, map(plain_text, of))), None) for of in lists]
    families: dict[str, dict[str, str]] = {}
    for match in filter(None, map(_OPTION.fullmatch, names)):
        families.setdefault(match[1], {})[match[2]] = match[0]  # opa, option1, A
    for family in families.values():
        if len(family) > 1 and {*family} & {"A", "a", "0", "1"}:
            cells = zip(*(map(plain_text, rows[name]) for name in family.values()), strict=True)
            return [_by_label([text or "" for text in texts], [*family]) for texts in cells]
    return [None] * len(rows)


def _options_in(cell: Any) -> dict[str, str] | None:
    """Return the options in a cell: a list of texts or objects, an object of lists or of texts."""
    cell, labels = parsed(cell), None
    if isinstance(cell, dict) and isinstance(cell.get("text"), list):
        cell, labels = cell["text"], cell.get("label")
    elif isinstance(cell, dict):
        cell, labels = [*cell.values()], [*cell]
    elif isinstance(cell, list) and all(isinstance(item, dict) for item in cell):
        labels = [item.get("label", item.get("key")) for item in cell]
        cell = [item.get("text", item.get("value")) for item in cell]
    texts = [plain_text(item) or "" for item in cell] if isinstance(cell, list) else []
    marks = [re.match(rf"\(?{a}[).:] *", text) for a, text in zip(LETTERS, texts, strict=False)]
    if all(marks):  # `A) 21`
        texts = [text[mark.end() :] for text, mark in zip(texts, marks, strict=True) if mark]
    return _by_label(texts, labels)


def _by_label(texts: Sequence[str], labels: Any) -> dict[str, str] | None:
    """Return label -> text, with letters for labels that are none; None without two texts."""
    texts = texts[: max([k for k, text in enumerate(texts, 1) if text], default=0)]
    are_labels = labels and all(isinstance(one, str) and len(one) == 1 for one in labels)
    named = zip(labels if are_labels else LETTERS, texts, strict=False)
    return dict(named) if len(texts) > 1 else None
