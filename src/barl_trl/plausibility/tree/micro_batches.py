"""Rows as the tensors of one forward pass: padded below each other, or joined to one."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from .rows import Row, within_budget


class MicroBatch(NamedTuple):
    """R right-padded rows of N tokens, and K scored tokens; padding sees itself only.

    Args:
        token_ids: Tokens, 0 in padding.
        position_ids: Depths, 0 in padding.
        subtree_ends: One past the row position of each token's last descendant.
        attention_mask: False in padding.
        places: Row * N + row position of each scored token's logits.
        labels: The scored tokens.
        targets: Rollout, state, hypothesis and answer token that each scored token belongs to.
        rows: The rows that are joined to one, each with the place where it begins; empty if padded.
    """

    token_ids: Int[Tensor, "R N"]
    position_ids: Int[Tensor, "R N"]
    subtree_ends: Int[Tensor, "R N"]
    attention_mask: Bool[Tensor, "R N"]
    places: Int[Tensor, " K"]
    labels: Int[Tensor, " K"]
    targets: Int[Tensor, "K 4"]
    rows: list[tuple[int, Row]]

    @property
    def is_completion(self) -> Bool[Tensor, " K"]:
        """Which scored tokens are a completion's, and no answer's."""
        return self.targets[:, 1] < 0

    def to(self, device: torch.device) -> "MicroBatch":
        """Return a copy on a device."""
        return MicroBatch(*(tensor.to(device) for tensor in self[:-1]), rows=self.rows)


def _int_tensor(values: Sequence[object]) -> Tensor:
    """Return integers as an int64 tensor; `torch.tensor` takes several times as long."""
    return torch.from_numpy(np.array(values, dtype=np.int64))


def packed_micro_batches(rows: Sequence[Row], max_tokens: int) -> Iterator[MicroBatch]:
    """Put rows one after the other, up to `max_tokens` together; a longer row goes alone."""
    for cut in within_budget((row.size for row in rows), max_tokens):
        joined = rows[cut]
        *starts, _ = accumulate((row.size for row in joined), initial=0)
        fed = [slice(row.num_cached, None) for row in joined]
        token_ids, position_ids, ends = (
            _int_tensor([v for row, part in zip(column, fed, strict=True) for v in row[part]])[None]
            for column in list(zip(*joined, strict=True))[:3]
        )
        shifts = torch.tensor([at - row.num_cached for at, row in zip(starts, joined, strict=True)])
        sizes = torch.tensor([row.size for row in joined])
        yield MicroBatch(
            token_ids,
            position_ids,
            ends + shifts.repeat_interleave(sizes),
            torch.ones_like(token_ids, dtype=torch.bool),
            *_scored_tokens(joined, starts),
            rows=list(zip(starts, joined, strict=True)),
        )


def padded_micro_batches(
    rows: Sequence[Row], max_tokens: int, *, same_length: bool = False
) -> Iterator[MicroBatch]:
    """Group rows, shortest first, so that rows * longest <= max_tokens; a longer row goes alone.

    Args:
        rows: The rows, in any order.
        max_tokens: Most tokens of a micro-batch, padding included.
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
    """Return rows as one micro-batch, padded on the right."""
    token_ids, position_ids, ends = (
        pad_sequence([_int_tensor(values) for values in column], batch_first=True)
        for column in list(zip(*rows, strict=True))[:3]
    )
    size = token_ids.shape[1]
    return MicroBatch(
        token_ids,
        position_ids,
        torch.maximum(ends, torch.arange(1, size + 1)),
        torch.arange(size) < torch.tensor([[len(row.token_ids)] for row in rows]),
        *_scored_tokens(rows, [i * size for i in range(len(rows))]),
        rows=[],
    )


def _scored_tokens(rows: Sequence[Row], starts: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Return places, labels and targets of rows that begin at the given places."""
    scored = [
        (start + token.position - row.num_cached, *token[1:])
        for row, start in zip(rows, starts, strict=True)
        for token in row.scored
    ]
    places, labels, *targets = _int_tensor(scored).view(-1, 6).unbind(-1)
    return places, labels, torch.stack(targets, -1)
