"""Records of rollouts: the belief at every state, and the weight of every token.

A folder holds one parquet file per rollout batch, `rollouts_00005.parquet`. A row is a rollout.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .json_files import parse_json, regular

VERSION = 3
"""Version of the schema. Readers refuse files of a later version."""

SCHEMA = pa.schema(
    [
        pa.field("step", pa.int32(), nullable=False),
        pa.field("group", pa.int32(), nullable=False),
        pa.field("rollout", pa.int32(), nullable=False),
        pa.field("prompt_id", pa.string(), nullable=False),
        pa.field("prompt", pa.string(), nullable=False),
        pa.field("solution", pa.string()),
        pa.field("token_ids", pa.list_(pa.int32()), nullable=False),  # L
        pa.field("tokens", pa.list_(pa.string()), nullable=False),  # L
        pa.field("token_logps", pa.list_(pa.float32())),  # L
        pa.field("importance_ratios", pa.list_(pa.float32())),  # L
        pa.field("token_weights", pa.list_(pa.float32())),  # L
        pa.field("step_ends", pa.list_(pa.int32()), nullable=False),  # T, ascending
        pa.field("step_values", pa.list_(pa.float32())),  # T
        pa.field("rewards", pa.list_(pa.float32()), nullable=False),  # one per reward function
        pa.field("outcome", pa.float32()),
        pa.field("advantage", pa.float32()),
        pa.field("answer", pa.string()),
        pa.field("hypotheses", pa.list_(pa.string())),  # H, the truth first
        pa.field("member", pa.int32()),
        pa.field("answer_logps", pa.list_(pa.list_(pa.float32()))),  # S rows of H, nats
        pa.field("posterior", pa.list_(pa.list_(pa.float32()))),  # S rows of H
        pa.field("reason", pa.string()),
        pa.field("is_cut_off", pa.bool_()),
        pa.field("scored_tokens", pa.int32()),
        pa.field("own_tokens", pa.list_(pa.int8())),  # L
        pa.field("turn_ends", pa.list_(pa.int32())),  # one per turn, ascending
        pa.field("observed_tools", pa.list_(pa.list_(pa.string()))),  # a list per turn
        pa.field("ended_in_call", pa.bool_()),
        pa.field("has_truth", pa.bool_()),
        pa.field("cost", pa.float32()),
        pa.field("outcomes_under", pa.list_(pa.float32())),  # H
        pa.field("predicted_rewards", pa.list_(pa.list_(pa.float32()))),  # T rows of H
    ]
)
"""Columns of a record of T steps, S = T + 1 states, H hypotheses and L completion tokens.

The table in docs/inspector.md says what each means. A column is null where the run has no such
thing.
"""

_SINCE: dict[str, int] = dict.fromkeys(
    ("own_tokens", "turn_ends", "observed_tools", "ended_in_call"), 2
)
_SINCE |= dict.fromkeys(("has_truth", "cost", "outcomes_under", "predicted_rewards"), 3)
"""Column -> the first version that has it, if that is not the first. Files of versions before that
are read as if it were null."""

FOLDER = "beliefs"
"""Name of the folder of records in the folder of a run."""

ROWS_TOGETHER = 1024
"""Number of records in a row group, which is compressed and read as a whole."""

_TEXTS: Any = ["prompt_id", "prompt", "solution", "reason"]
_TEXTS += [f"{name}.list.element" for name in ("tokens", "hypotheses")]
"""Columns whose values recur. Parquet stores each of their values once, in a dictionary."""

_NUMBERS = [
    f"{name}.list.element"
    for name in ("token_logps", "importance_ratios", "token_weights", "step_values")
]
_MATRICES = ("answer_logps", "posterior", "predicted_rewards")
_NUMBERS += [f"{name}.list.element.list.element" for name in _MATRICES]
"""Columns whose values hardly recur. Split by byte, they take two thirds of the space and half of
the time that they take with a dictionary."""

_NAME = re.compile(r"rollouts_(\d+)(?:_(\d+))?\.parquet")


def file_name(step: int, part: int = 0) -> str:
    """Return the name of the file with the rollouts that were generated after `step` steps.

    Args:
        step: Number of optimizer steps that were done.
        part: Number of the rollout batch within the optimizer step, from 0. A step may take several
            batches.
    """
    return f"rollouts_{step:05d}{f'_{part}' if part else ''}.parquet"


def record_files(folder: Path) -> list[tuple[int, Path]]:
    """Return step and path of each file of records in a folder, in the order of steps."""
    matches = [(_NAME.fullmatch(path.name), path) for path in folder.glob("rollouts_*.parquet")]
    places = [(int(name[1]), int(name[2] or 0), path) for name, path in matches if name]
    return [(step, path) for step, _, path in sorted(places)]


def forget_from(folder: Path, step: int) -> None:
    """Delete the files of rollouts that were generated after `step` steps or more.

    A run that begins, or goes on from a checkpoint, generates these rollouts anew, perhaps at other
    steps. Unfinished files of a killed run are deleted, too.
    """
    undone = [path for file_step, path in record_files(folder) if file_step >= step]
    for path in [*undone, *folder.glob("rollouts_*.partial")]:
        path.unlink(missing_ok=True)


def record_table(columns: Mapping[str, Any]) -> pa.Table:
    """Return columns of records as a table.

    Args:
        columns: Columns by the names of [`SCHEMA`], as Arrow arrays or lists. A column that is None
            or lacking is null in all records.

    Raises:
        ValueError: A column has nulls and must not have any.
    """
    [number] = {len(column) for column in columns.values() if column is not None}
    arrays = []
    for field in SCHEMA:
        column = columns.get(field.name)
        if column is None:
            column = pa.nulls(number, field.type)
        column = column if isinstance(column, pa.Array) else pa.array(column, field.type)
        column = column if column.type == field.type else column.cast(field.type)
        if column.null_count and not field.nullable:
            raise ValueError(
                f"{field.name} must be known of every rollout, got none of {column.null_count}."
            )
        arrays.append(column)
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def write_records(path: Path, tables: Sequence[pa.Table], metadata: Mapping[str, Any]) -> None:
    """Write records to a file. The file appears once it is complete.

    Args:
        path: The file. Its folder is made if it is missing.
        tables: The records, in parts that [`record_table`] made.
        metadata: What holds for all records, as JSON values: for instance `model`, `reward_names`,
            the seconds that the batch took, and `settings`: those of scoring and credit, by their
            names in [`BARLConfig`]. A model's absolute path is reduced to the folder's name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    model = metadata.get("model")
    shown = {"model": Path(model).name} if model and Path(model).is_absolute() else {}
    texts = {"barl_trl": json.dumps({"version": VERSION, **metadata, **shown})}
    partial = path.with_suffix(".partial")
    pq.write_table(
        pa.concat_tables(tables).replace_schema_metadata(texts),
        partial,
        row_group_size=ROWS_TOGETHER,
        compression="zstd",
        use_dictionary=_TEXTS,
        column_encoding=dict.fromkeys(_NUMBERS, "BYTE_STREAM_SPLIT"),
        write_page_checksum=True,
    )
    partial.replace(path)


def read_metadata(path: Path) -> dict[str, Any]:
    """Read the metadata of a file of records.

    Raises:
        ValueError: The file is no file of records.
    """
    return _read(path, [])[0]


def read_file(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read the metadata and the records of a file.

    Raises:
        ValueError: The file is no file of records, or is damaged, a column is missing, or a record
            contradicts itself.
    """
    metadata, table = _read(path, SCHEMA.names)
    records = table.to_pylist()
    for number, record in enumerate(records):
        if fault := _fault(record):
            raise ValueError(f"{path} must have whole records, got {fault} in row {number}.")
    return metadata, records


def read_records(folder: Path, *, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the records of a folder in the order of steps. A run may still be writing to it.

    Args:
        folder: Folder of the files that [`write_records`] wrote.
        columns: Names of the columns to read. None: all.
    """
    for _, path in record_files(folder):
        yield from _read(path, columns or SCHEMA.names)[1].to_pylist()


def _fault(record: Mapping[str, Any]) -> str | None:
    """Return in words what contradicts itself in a record; None if nothing does."""
    ends, tokens = record["step_ends"], len(record["tokens"])
    steps, size = len(ends), len(record["hypotheses"] or ())
    if None in ends or any(a >= b for a, b in pairwise([0, *ends])) or (ends or [0])[-1] > tokens:
        return f"step_ends {ends!r:.40}, which do not ascend up to {tokens},"
    lengths = {"token_ids": tokens, "step_values": steps} | dict.fromkeys(
        ("token_logps", "importance_ratios", "token_weights", "own_tokens"), tokens
    )
    lengths["observed_tools"] = len(record["turn_ends"] or ())
    if size:
        lengths |= dict.fromkeys(_MATRICES, steps + 1)
        lengths |= {"predicted_rewards": steps, "outcomes_under": size}
    for name, length in lengths.items():
        if record[name] is not None and len(record[name]) != length:
            return f"{len(record[name])} {name} where there must be {length}"
    for name in _MATRICES:
        states = record[name] or [] if size else []
        if any(row is None or len(row) != size or None in row for row in states):
            return f"{name} of another number of hypotheses"
    if size and not 0 <= (record["member"] or 0) < size:
        return f"member {record['member']} of {size} hypotheses"
    if (size and None in (record["answer_logps"], record["posterior"])) or any(
        None in (record[name] or ()) for name in ("tokens", "token_ids", "hypotheses")
    ):
        return "an empty token or hypothesis, or one without answer_logps or posterior,"
    return None


def _read(path: Path, columns: Sequence[str]) -> tuple[dict[str, Any], pa.Table]:
    """Return the metadata of a file, and these columns of its records."""
    regular(path)
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            schema = file.schema_arrow
            table = file.read([*columns])
            table.validate(full=True)
        metadata = parse_json((schema.metadata or {}).get(b"barl_trl", b"null").decode())
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise ValueError(f"{path} must be a file of rollout records, got {reason}.") from None
    if not isinstance(metadata, dict) or type(metadata.get("version")) is not int:
        raise ValueError(f"{path} must be a file of rollout records, got one without metadata.")
    if not isinstance(metadata.get("settings", {}), dict):
        raise ValueError(
            f"{path} must have settings by name in its metadata, got {metadata['settings']!r:.40}."
        )
    if metadata["version"] > VERSION:
        raise ValueError(
            f"path must have records of version {VERSION} at most, got {metadata['version']} in "
            f"{path}: update barl-trl."
        )
    for name in columns:
        if metadata["version"] < _SINCE.get(name, 1):
            field = SCHEMA.field(name)
            table = table.append_column(field, pa.nulls(len(table), field.type))
            schema = schema.append(field)
    wrong = [
        name
        for name in columns
        if [SCHEMA.field(name)] != [schema.field(n) for n in schema.get_all_field_indices(name)]
    ]
    if wrong:
        raise ValueError(f"{path} must have the columns {', '.join(wrong)}, got none or others.")
    return metadata, table
