"""Records of rollouts: the belief at every state, and the weight of every token.

A folder holds one parquet file per rollout batch, `rollouts_00005.parquet`. A row is a rollout.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .redaction import redacted

VERSION = 4
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
        pa.field("ended_by_tool", pa.bool_()),
        pa.field("has_truth", pa.bool_()),
        pa.field("cost", pa.float32()),
        pa.field("outcomes_under", pa.list_(pa.float32())),  # H
        pa.field("predicted_rewards", pa.list_(pa.list_(pa.float32()))),  # T rows of H
        pa.field("turn_rewards", pa.list_(pa.float32())),  # T, null where none was told
        pa.field("states", pa.list_(pa.int64())),  # T, equal where steps begin in one state
    ]
)
"""Columns of a record of T steps, S = T + 1 states, H hypotheses and L completion tokens.

The table in docs/inspector.md says what each means. A column is null where the run has no such
thing, and is read as null where a file of an earlier version lacks it.
"""

FOLDER = "beliefs"
"""Name of the folder of records in the folder of a run."""

ROWS_TOGETHER = 1024
"""Number of records in a row group, which is compressed and read as a whole."""

_TEXTS: Any = ["prompt_id", "prompt", "solution", "reason"]
_TEXTS += ["tokens.list.element", "hypotheses.list.element"]
"""Columns whose values recur. Parquet stores each of their values once, in a dictionary."""
_NUMBERS = ["token_logps", "importance_ratios", "token_weights", "step_values"]
_NUMBERS += [f"{name}.list.element" for name in ("answer_logps", "posterior", "predicted_rewards")]
"""Lists of numbers that hardly recur. Split by byte, they take two thirds of the space and half of
the time that they take with a dictionary."""
_NAME = re.compile(r"rollouts_(\d+)(?:_(\d+))?\.parquet")


def file_name(step: int, part: int = 0) -> str:
    """Return the name of the file with the rollouts that `step`, from 1, is the first to train on.

    An optimizer step may take several rollout batches: `part` is their number, from 0.
    """
    return f"rollouts_{step:05d}{f'_{part}' if part else ''}.parquet"


def record_files(folder: Path) -> list[tuple[int, Path]]:
    """Return step and path of each file of records in a folder, in the order of steps."""
    names = [(_NAME.fullmatch(path.name), path) for path in folder.glob("rollouts_*.parquet")]
    # a pipe of such a name would never end
    places = [(int(n[1]), int(n[2] or 0), path) for n, path in names if n and path.is_file()]
    return [(step, path) for step, _, path in sorted(places)]


def forget_from(folder: Path, step: int) -> None:
    """Delete the files of rollouts of the steps after `step`.

    A run that begins, or goes on from a checkpoint, generates these rollouts anew, perhaps at other
    steps. Unfinished files of a killed run are deleted, too.
    """
    undone = [path for file_step, path in record_files(folder) if file_step > step]
    for path in [*undone, *folder.glob("rollouts_*.partial")]:
        path.unlink(missing_ok=True)


def record_table(columns: Mapping[str, Any]) -> pa.Table:
    """Return columns by the names of [`SCHEMA`] as a table.

    Columns are lists, in which a row of numbers may be a NumPy array. A column that is None or
    lacking is null in all records.

    Raises:
        ValueError: A column has nulls and must not have any.
    """
    [number] = {len(column) for column in columns.values() if column is not None}
    arrays = []
    for field in SCHEMA:
        column = columns.get(field.name)
        arrays.append(pa.array([None] * number if column is None else column, field.type))
        if arrays[-1].null_count and not field.nullable:
            raise ValueError(f"{field.name} must be known of every rollout, got null.")
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def write_records(path: Path, tables: Sequence[pa.Table], metadata: Mapping[str, Any]) -> None:
    """Write records to a file. The file appears once it is complete.

    Args:
        path: The file. Its folder is made if it is missing.
        tables: The records, in parts that [`record_table`] made.
        metadata: What holds for all records, as JSON values, such as `reward_names` and `settings`,
            those of BARL. A `model`'s absolute path is reduced to the folder's name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    model = metadata.get("model")
    shown = {"model": Path(model).name} if model and Path(model).is_absolute() else {}
    texts = {"barl_trl": json.dumps(redacted({"version": VERSION, **metadata, **shown}))}
    partial = path.with_suffix(".partial")
    pq.write_table(
        pa.concat_tables(tables).replace_schema_metadata(texts),
        partial,
        row_group_size=ROWS_TOGETHER,
        compression="zstd",
        use_dictionary=_TEXTS,
        column_encoding={f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in _NUMBERS},
        write_page_checksum=True,
    )
    partial.replace(path)


def read_metadata(path: Path) -> dict[str, Any]:
    """Read the metadata of a file of records; raise `ValueError` if it is none."""
    return _read(path, [])[0]


def read_file(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read metadata and records; raise `ValueError` if a file is damaged or has none."""
    metadata, table = _read(path, SCHEMA.names)
    return metadata, table.to_pylist()


def read_records(folder: Path, *, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield records, or some of their columns, of a folder in the order of steps.

    A run may still be writing to the folder.
    """
    for _, path in record_files(folder):
        yield from _read(path, columns or SCHEMA.names)[1].to_pylist()


def _read(path: Path, columns: Sequence[str]) -> tuple[dict[str, Any], pa.Table]:
    """Return the metadata of a file, and these columns of its records."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            schema = file.schema_arrow
            table = file.read([name for name in columns if name in schema.names])
        table.validate(full=True)
        metadata = json.loads((schema.metadata or {}).get(b"barl_trl", b"null"))
        version = (metadata or {}).get("version")
        if not isinstance(version, int) or version > VERSION:
            raise ValueError(f"version {version!r}, and not one up to {VERSION}: update barl-trl")
        for name in columns:
            field = SCHEMA.field(name)
            if field.nullable and name not in schema.names:
                table = table.append_column(field, pa.nulls(len(table), field.type))
            elif schema.field(name) != field:
                raise ValueError(f"another column {name}")
        if version < 4 and metadata.get("source") == "training" and "step" in columns:
            steps = pa.array(table["step"].to_numpy() + 1)  # it counted the steps that were done
            table = table.set_column(table.column_names.index("step"), SCHEMA.field("step"), steps)
    except (pa.ArrowException, OSError, ValueError, KeyError, AttributeError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise ValueError(f"{path} must be a file of rollout records, got {reason}.") from None
    return metadata, table.select([*columns])


def likeliest(belief: Any, *always: int | None) -> list[int]:
    """Return the indices of a rollout's hypotheses that are shown.

    These are all of at most twelve; else the ten whose belief at any state is the largest, the
    first of equals, and those in `always`. `belief` has the shape (S, H).
    """
    belief = np.asarray(belief)
    if belief.shape[1] <= 12:
        return [*range(belief.shape[1])]
    order = np.argsort(-belief.max(axis=0), kind="stable")[:10].tolist()
    return sorted({*order, *(i for i in always if i is not None)})
