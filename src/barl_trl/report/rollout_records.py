"""Records of rollouts: what each believed at every state, and what its tokens were worth.

A folder holds one parquet file per rollout batch, `rollouts_00005.parquet`. A row is a rollout.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

VERSION = 1
"""Version of the schema; a reader refuses a later one."""

SCHEMA = pa.schema(
    [
        pa.field("step", pa.int32(), nullable=False),
        pa.field("group", pa.int32(), nullable=False),
        pa.field("rollout", pa.int32(), nullable=False),
        pa.field("prompt_id", pa.string(), nullable=False),
        pa.field("prompt", pa.string(), nullable=False),
        pa.field("solution", pa.string()),
        pa.field("token_ids", pa.list_(pa.int32()), nullable=False),
        pa.field("tokens", pa.list_(pa.string()), nullable=False),
        pa.field("token_logps", pa.list_(pa.float32())),
        pa.field("importance_ratios", pa.list_(pa.float32())),
        pa.field("token_weights", pa.list_(pa.float32())),
        pa.field("step_ends", pa.list_(pa.int32()), nullable=False),
        pa.field("step_values", pa.list_(pa.float32())),
        pa.field("rewards", pa.list_(pa.float32()), nullable=False),
        pa.field("outcome", pa.float32()),
        pa.field("advantage", pa.float32()),
        pa.field("answer", pa.string()),
        pa.field("hypotheses", pa.list_(pa.string())),
        pa.field("member", pa.int32()),
        pa.field("answer_logps", pa.list_(pa.list_(pa.float32()))),
        pa.field("posterior", pa.list_(pa.list_(pa.float32()))),
        pa.field("reason", pa.string()),
        pa.field("is_cut_off", pa.bool_()),
        pa.field("scored_tokens", pa.int32()),
    ]
)
"""Columns of a record. T steps, S = T + 1 states, H hypotheses, L completion tokens.

| column | meaning |
|---|---|
| `step` | optimizer steps that were done when the rollout was generated |
| `group`, `rollout` | place of its prompt, and its own place, in the rollout batch |
| `prompt_id` | the first 12 hex digits of the prompt's SHA-256: the same in all batches |
| `prompt`, `solution` | the texts; `solution` is the row's, as it was given |
| `token_ids`, `tokens` | L ids, and their texts, which joined are the completion |
| `token_logps` | log-probability of each token under the policy that is trained, L, in nats |
| `importance_ratios` | ratio that corrects for another engine's sampling, L |
| `token_weights` | weight of each token in the policy gradient, L; 0 where there is none |
| `step_ends` | tokens up to the end of each step, T, ascending; the tokens behind have no step |
| `step_values` | the credit's value of each step before whitening, T |
| `rewards` | one per reward function (names: `reward_names` of the metadata); NaN without one |
| `outcome` | their weighted sum, the outcome reward v |
| `advantage` | what GRPO gives every token: (v - mean of the group) / standard deviation |
| `answer` | the final answer that was read |
| `hypotheses` | answers of the H hypotheses; the first is the truth |
| `member` | index of the hypothesis that the rollout answers |
| `answer_logps` | log-likelihood of each hypothesis at each state, S rows of H, in nats |
| `posterior` | belief in each hypothesis at each state, S rows of H, each of sum 1 |
| `reason` | why the grader judged so |
| `is_cut_off` | whether the completion reached its longest length before its end |
| `scored_tokens` | tokens that were fed to the model to read the rollout's beliefs |

A column is null where the run has no such thing.
"""


def file_name(step: int) -> str:
    """Return the name of the file with the rollouts that were generated after `step` steps."""
    return f"rollouts_{step:05d}.parquet"


def write_records(
    path: Path, records: Sequence[Mapping[str, Any]], metadata: Mapping[str, Any]
) -> None:
    """Write one batch's records to a file that is whole or not there.

    Args:
        path: The file; its folder is made.
        records: Each with the columns of [`SCHEMA`]; one that lacks is null.
        metadata: What holds for all of them, JSON: `reward_names`, `credit`, `consistency_beta`,
            `model`, and seconds of the batch, for instance.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = {b"barl_trl": json.dumps({"version": VERSION, **metadata}).encode()}
    table = pa.Table.from_pylist(list(records), schema=SCHEMA.with_metadata(texts))
    partial = path.with_suffix(".partial")
    pq.write_table(table, partial, compression="zstd")
    partial.replace(path)


def read_metadata(path: Path) -> dict[str, Any]:
    """Read what holds for all records of a file.

    Raises:
        ValueError: The file is none of ours, or of a later version.
    """
    texts = pq.read_schema(path).metadata or {}
    if b"barl_trl" not in texts:
        raise ValueError(f"path must be a file of rollout records, got {path}: it has no metadata.")
    metadata = json.loads(texts[b"barl_trl"])
    if metadata["version"] > VERSION:
        raise ValueError(
            f"path must have records of version {VERSION} at most, got {metadata['version']} in "
            f"{path}: update barl-trl."
        )
    return metadata


def read_records(folder: Path, *, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the records of a folder in the order of steps, while a run may go on writing.

    Args:
        folder: With the files that [`write_records`] wrote.
        columns: Those to read. Defaults to all.
    """
    for path in sorted(folder.glob("rollouts_*.parquet")):
        read_metadata(path)
        yield from pq.read_table(path, columns=columns).to_pylist()
