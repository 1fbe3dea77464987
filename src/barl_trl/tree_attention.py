"""Attention over packed trees, piece by piece: causal along trunks, masked on branches only.

A mask over a whole row costs a causal kernel's skipping of the future, which is half of all pairs,
and would grow with the square of what stands in the row. Here a row's tokens go through the model
together, and attention runs for each block on its own, through the kernels of transformers' sdpa.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .micro_batches import MicroBatch

NAME = "barl_tree"
QUERIES = 256
"""Queries of one kernel call where a mask is needed: with the keys behind them cut off, it stays
small and most of the future is skipped."""


class Piece(NamedTuple):
    """Queries of a micro-batch and the keys among which they see theirs.

    Args:
        queries: A run of places.
        keys: One run of places, or two.
        mask: Which query (row) sees which key; `None` for plain causal attention.
    """

    queries: slice
    keys: list[slice]
    mask: Bool[Tensor, "Q K"] | None


def pieces(batch: MicroBatch) -> list[Piece]:
    """Cut a micro-batch of rows in one into pieces that cover its tokens in order."""
    ends, found = batch.ends[0], []
    for row, blocks in batch.rows:
        for block in blocks:
            start, trunk_stop, stop = (row + place for place in block[1:])
            shared = [slice(row, row + block.shared)] if block.shared else []
            if not shared:
                found.append(Piece(slice(start, trunk_stop), [slice(start, trunk_stop)], None))
            for first in range(start if shared else trunk_stop, stop, QUERIES):
                queries = slice(first, min(first + QUERIES, stop))
                keys = [*shared, slice(start, queries.stop)]
                found.append(Piece(queries, keys, _visible(ends, queries, keys)))
    return found


def _visible(ends: Int[Tensor, " N"], queries: slice, keys: list[slice]) -> Bool[Tensor, "Q K"]:
    """Which query sees which key, see `packing`."""
    q = torch.arange(queries.start, queries.stop, device=ends.device)[:, None]
    k = torch.cat([torch.arange(run.start, run.stop, device=ends.device) for run in keys])
    return (k <= q) & (q < ends[k])


@contextmanager
def tree_attention(base: PreTrainedModel, batch: MicroBatch) -> Iterator[None]:
    """Let a model attend along the trees of a micro-batch; its own attention is put back."""
    cut = pieces(batch)

    def attend(module, query, key, value, attention_mask, is_causal=None, **kwargs):
        outputs = []
        for piece in cut:
            keys, values = (
                states[:, :, piece.keys[0]]
                if len(piece.keys) == 1
                else torch.cat([states[:, :, run] for run in piece.keys], dim=2)
                for states in (key, value)
            )
            mask = piece.mask if piece.mask is None else piece.mask[None, None]
            output, _ = sdpa_attention_forward(
                module, query[:, :, piece.queries], keys, values, mask, is_causal=True, **kwargs
            )
            outputs.append(output)
        return torch.cat(outputs, dim=1), None

    models = (module for module in base.modules() if isinstance(module, PreTrainedModel))
    configs = {id(config): config for config in (m.config.get_text_config() for m in models)}
    before = {key: config._attn_implementation for key, config in configs.items()}
    ALL_ATTENTION_FUNCTIONS.register(NAME, attend)
    for config in configs.values():
        config._attn_implementation = NAME
    try:
        yield
    finally:
        for key, config in configs.items():
            config._attn_implementation = before[key]
