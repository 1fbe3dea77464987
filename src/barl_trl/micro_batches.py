"""Rows of tokens as the tensors of one forward pass: padded below each other, or joined to one."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from .packing import Row, within_budget


class MicroBatch(NamedTuple):
    """R right-padded rows of N tokens, and K reads; padding sees itself only.

    Args:
        token_ids: Tokens, 0 in padding.
        position_ids: Depths, 0 in padding.
        ends: See `Row`.
        attention_mask: False in padding.
        places: Row * N + row position of each read.
        labels: Token whose log-probability is read.
        targets: Rollout, state, hypothesis and answer token that each read belongs to.
        rows: Where each of the rows begins that stand in one, and the row; empty if padded.
    """

    token_ids: Int[Tensor, "R N"]
    position_ids: Int[Tensor, "R N"]
    ends: Int[Tensor, "R N"]
    attention_mask: Bool[Tensor, "R N"]
    places: Int[Tensor, " K"]
    labels: Int[Tensor, " K"]
    targets: Int[Tensor, "K 4"]
    rows: list[tuple[int, Row]]

    def to(self, device: torch.device) -> "MicroBatch":
        """Return a copy on a device."""
        return MicroBatch(*(tensor.to(device) for tensor in self[:-1]), rows=self.rows)


def int_tensor(values: Sequence[object]) -> Tensor:
    """Return integers as an int64 tensor; `torch.tensor` takes several times as long."""
    return torch.from_numpy(np.array(values, dtype=np.int64))


def packed_micro_batches(rows: Sequence[Row], max_tokens: int) -> Iterator[MicroBatch]:
    """Put rows behind each other, up to `max_tokens` together; a longer row goes alone."""
    for cut in within_budget((row.size for row in rows), max_tokens):
        joined = rows[cut]
        *starts, _ = accumulate((row.size for row in joined), initial=0)
        fed = [slice(row.known, None) for row in joined]
        token_ids, position_ids, ends = (
            torch.cat([int_tensor(v[part]) for v, part in zip(column, fed, strict=True)])[None]
            for column in list(zip(*joined, strict=True))[:3]
        )
        shifts = torch.tensor([at - row.known for at, row in zip(starts, joined, strict=True)])
        sizes = torch.tensor([row.size for row in joined])
        yield MicroBatch(
            token_ids,
            position_ids,
            ends + shifts.repeat_interleave(sizes),
            torch.ones_like(token_ids, dtype=torch.bool),
            *_reads(joined, starts),
            rows=list(zip(starts, joined, strict=True)),
        )


def padded_micro_batches(
    rows: Sequence[Row], max_tokens: int, *, same_length: bool = False
) -> Iterator[MicroBatch]:
    """Group rows, shortest first, so that rows * longest <= max_tokens; a longer row goes alone.

    Args:
        rows: The rows, in any order.
        max_tokens: Budget of a micro-batch in tokens, padding included.
        same_length: Whether only rows of equal length may meet, so that nothing is padded.
    """
    group: list[Row] = []
    for row in sorted(rows, key=lambda row: len(row.token_ids)):
        size = len(row.token_ids)
        mixed = same_length and bool(group) and len(group[0].token_ids) < size
        if group and (mixed or (len(group) + 1) * size > max_tokens):
            yield _padded(group)
            group = []
        group.append(row)
    if group:
        yield _padded(group)


def _padded(rows: Sequence[Row]) -> MicroBatch:
    """Turn rows into tensors."""
    token_ids, position_ids, ends = (
        pad_sequence([int_tensor(values) for values in column], batch_first=True)
        for column in list(zip(*rows, strict=True))[:3]
    )
    size = token_ids.shape[1]
    return MicroBatch(
        token_ids,
        position_ids,
        torch.maximum(ends, torch.arange(1, size + 1)),
        torch.arange(size) < torch.tensor([[len(row.token_ids)] for row in rows]),
        *_reads(rows, [i * size for i in range(len(rows))]),
        rows=[],
    )


def _reads(rows: Sequence[Row], starts: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Places, labels and targets of the reads of rows that begin at the given places."""
    reads = [
        (start + read.position - row.known, *read[1:])
        for row, start in zip(rows, starts, strict=True)
        for read in row.reads
    ]
    places, labels, *targets = int_tensor(reads).view(-1, 6).unbind(-1)
    return places, labels, torch.stack(targets, -1)


def tree_mask(
    ends: Int[Tensor, "B N"],
    position_ids: Int[Tensor, "B N"],
    *,
    window: int | None = None,
    chunk: int | None = None,
) -> Bool[Tensor, "B 1 N N"]:
    """Say which key (last axis) each query sees: `k <= q < end[k]`, within the layer's reach.

    Args:
        ends: One past the row position of each token's last descendant.
        position_ids: Depth of each token. Reach is measured in depth: a row holds other branches.
        window: Sliding window in tokens, the query included.
        chunk: Chunk size in tokens: a query sees no other chunk than its own.

    Examples:
        >>> ends = torch.tensor([[4, 2, 4, 4]])  # 1 and 2-3 are two branches of 0
        >>> tree_mask(ends, torch.tensor([[0, 1, 1, 2]]))[0, 0].int().tolist()
        [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]]
    """
    places = torch.arange(ends.shape[1], device=ends.device)
    visible = (places <= places[:, None]) & (places[:, None] < ends[:, None, :])
    queries, keys = position_ids[:, :, None], position_ids[:, None, :]
    if window is not None:
        visible &= queries - keys < window
    if chunk is not None:
        visible &= queries // chunk == keys // chunk
    return visible[:, None]
