"""Attention over packed trees, piece by piece: causal along trunks, masked on branches only.

A mask over a whole row costs a causal kernel's skipping of the future, which is half of all pairs,
and would grow with the square of what stands in the row. Here a row's tokens go through the model
together, and attention runs for each block on its own, through the kernels of transformers' sdpa.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .generation_cache import GenerationCache
from .micro_batches import MicroBatch, int_tensor

NAME = "barl_tree"
QUERIES = 128
"""Queries of one kernel call where a mask is needed: with the keys behind them cut off, it stays
small and most of the future is skipped."""


class Piece(NamedTuple):
    """Queries of a micro-batch and the keys among which they see theirs.

    Args:
        queries: A run of places.
        known: How many of a rollout's first tokens are keys, and which rollout's: they are known.
        keys: Runs of places, behind those.
        spans: The first query that sees each key, and one past the last, counted from the first of
            the piece; `None` for plain causal attention.
    """

    queries: slice
    known: tuple[int, int]
    keys: list[slice]
    spans: Int[Tensor, "2 K"] | None


def pieces(batch: MicroBatch) -> list[Piece]:
    """Cut a micro-batch of rows in one into pieces that cover its tokens in order."""
    found = []
    for place, row in batch.rows:
        ends, shift = int_tensor(row.ends), place - row.known
        for shared, start, trunk_stop, stop in row.blocks:
            start = max(start, row.known)
            # the whole trunk through the causal kernel, unless one masked call holds the block
            is_causal = not shared and not row.known and stop - start > QUERIES
            if is_causal:
                trunk = slice(shift + start, shift + trunk_stop)
                found.append(Piece(trunk, (0, 0), [trunk], None))
            for first in range(trunk_stop if is_causal else start, stop, QUERIES):
                last = min(first + QUERIES, stop)
                before = torch.arange(shared or row.known)
                keys = torch.cat([before, torch.arange(start, last)])
                # branches of shallow states see none of the trunk behind them
                keys = keys[ends[keys] > first]
                known = int((keys < row.known).sum())
                found.append(
                    Piece(
                        slice(shift + first, shift + last),
                        (known, row.rollout),
                        runs(shift + keys[known:]),
                        torch.stack([keys, ends[keys]]) - first,
                    )
                )
    return found


def runs(places: Int[Tensor, " K"]) -> list[slice]:
    """Ascending places as runs of neighbours."""
    breaks = (places.diff() > 1).nonzero().flatten().tolist()
    starts = [0, *(at + 1 for at in breaks)]
    stops = [*starts[1:], len(places)]
    return [
        slice(int(places[a]), int(places[b - 1]) + 1) for a, b in zip(starts, stops, strict=True)
    ]


def _mask(
    piece: Piece, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "1 1 Q K"] | None:
    """Return what is added to a piece's scores, made where it is needed."""
    if piece.spans is None:
        return None
    first, stop = piece.spans.to(device)
    queries = torch.arange(piece.queries.stop - piece.queries.start, device=device)[:, None]
    visible = (first <= queries) & (queries < stop)
    return torch.where(visible, 0.0, -torch.inf).to(dtype)[None, None]


@contextmanager
def attending_with(implementation: str, base: PreTrainedModel) -> Iterator[None]:
    """Let a model attend with an implementation; its own is put back, also after an exception."""
    models = (module for module in base.modules() if isinstance(module, PreTrainedModel))
    configs = {id(config): config for config in (m.config.get_text_config() for m in models)}
    before = {key: config._attn_implementation for key, config in configs.items()}
    for config in configs.values():
        config._attn_implementation = implementation
    try:
        yield
    finally:
        for key, config in configs.items():
            config._attn_implementation = before[key]


@contextmanager
def attending_by(attend: Callable[..., Any], base: PreTrainedModel) -> Iterator[None]:
    """Let a model attend by a function, of which nothing stays: it may hold masks and keys."""
    ALL_ATTENTION_FUNCTIONS[NAME] = attend
    try:
        with attending_with(NAME, base):
            yield
    finally:
        del ALL_ATTENTION_FUNCTIONS[NAME]


@contextmanager
def tree_attention(
    base: PreTrainedModel, batch: MicroBatch, cache: GenerationCache | None
) -> Iterator[None]:
    """Let a model attend along the trees of a micro-batch; its own attention is put back.

    Args:
        base: The model.
        batch: Rows that stand in one.
        cache: What is known of them.
    """
    cut = pieces(batch)
    masks: dict[tuple[torch.device, torch.dtype], list[Tensor | None]] = {}

    def attend(module, query, key, value, attention_mask, is_causal=None, **kwargs):
        # once for all layers: kernels turn a boolean mask into this one at every call
        place = query.device, query.dtype
        if place not in masks:
            masks[place] = [_mask(piece, *place) for piece in cut]
        outputs = []
        for piece, mask in zip(cut, masks[place], strict=True):
            keys, values = ([states[:, :, run] for run in piece.keys] for states in (key, value))
            length, rollout = piece.known
            if cache is not None and length:
                known = cache.prefix(module.layer_idx, rollout, length)
                keys, values = [known[0], *keys], [known[1], *values]
            keys, values = (
                parts[0] if len(parts) == 1 else torch.cat(parts, dim=2) for parts in (keys, values)
            )
            output, _ = sdpa_attention_forward(
                module, query[:, :, piece.queries], keys, values, mask, is_causal=True, **kwargs
            )
            outputs.append(output)
        return torch.cat(outputs, dim=1), None

    with attending_by(attend, base):
        yield
