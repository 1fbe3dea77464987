"""Attention along trees: piece by piece over packed rows, or with a mask over padded ones.

With a mask over a whole packed row, a causal kernel could not skip the future, which is half of all
pairs, and the mask would grow with the square of the row's length. Here a row's tokens go through
the model together, and attention runs for each block on its own, through the kernels of
transformers' sdpa. It is causal along trunks, and masked on branches only.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .model_traits import layer_types, takes_masks
from .rows import MicroBatch

NAME = "barl_tree"
QUERIES = 128
"""Number of queries of one kernel call where a mask is needed. The keys after them are cut off, so
that the mask stays small and most of the future is skipped.
"""
GPU_QUERIES = 512
"""The same on a GPU, where larger calls were measured to take less than half the time."""


class _Piece(NamedTuple):
    """A run of queries of a micro-batch, and runs of keys among which they see theirs."""

    queries: slice
    keys: list[slice]
    spans: Int[Tensor, "2 K"] | None
    """The first query that sees each key, and one past the last, counted from the first of the
    piece; None for plain causal attention.
    """


def pieces(batch: MicroBatch, queries: int) -> list[_Piece]:
    """Cut a packed micro-batch into pieces, in order; masked ones of at most some queries."""
    cut = []
    for shift, row in batch.rows:
        ends = np.array(row.subtree_ends)  # torch's small operations take several times as long
        for shared, start, trunk_stop, stop, _ in row.blocks:
            # the whole trunk through the causal kernel, unless one masked call holds the block
            is_causal = not shared and stop - start > queries
            if is_causal:
                trunk = slice(shift + start, shift + trunk_stop)
                cut.append(_Piece(trunk, [trunk], None))
            for first in range(trunk_stop if is_causal else start, stop, queries):
                last = min(first + queries, stop)
                keys = np.concatenate([np.arange(shared), np.arange(start, last)])
                # branches of shallow states see none of the trunk after them
                keys = keys[ends[keys] > first]
                spans = torch.from_numpy(np.stack([keys, ends[keys]]) - first)
                queried = slice(shift + first, shift + last)
                cut.append(_Piece(queried, runs(shift + keys), spans))
    return cut


def runs(places: Int[np.ndarray, " K"]) -> list[slice]:
    """Return ascending places as runs of consecutive ones."""
    breaks = np.flatnonzero(np.diff(places) > 1).tolist()
    starts = [0, *(at + 1 for at in breaks)]
    stops = [*starts[1:], len(places)]
    return [
        slice(int(places[a]), int(places[b - 1]) + 1) for a, b in zip(starts, stops, strict=True)
    ]


def _piece_mask(
    piece: _Piece, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "1 1 Q K"] | None:
    """Return what is added to a piece's attention scores: 0 or -inf, None if it is causal."""
    if piece.spans is None:
        return None
    first, stop = piece.spans.to(device)
    queries = torch.arange(piece.queries.stop - piece.queries.start, device=device)[:, None]
    visible = (first <= queries) & (queries < stop)
    return torch.where(visible, 0.0, -torch.inf).to(dtype)[None, None]


@contextmanager
def _attending_with(implementation: str, base: PreTrainedModel) -> Iterator[None]:
    """Let a model attend with an implementation, and put its own back, also after an exception."""
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
def tree_attention(base: PreTrainedModel, batch: MicroBatch) -> Iterator[None]:
    """Let a model attend along the trees of a packed micro-batch; its own attention is put back."""
    cut = pieces(batch, GPU_QUERIES if base.device.type == "cuda" else QUERIES)
    masks: dict[tuple[torch.device, torch.dtype], list[Tensor | None]] = {}

    def attend(module, query, key, value, attention_mask, is_causal=None, **kwargs):
        # once for all layers: kernels turn a boolean mask into this one at every call
        place = query.device, query.dtype
        if place not in masks:
            masks[place] = [_piece_mask(piece, *place) for piece in cut]
        outputs = []
        for piece, mask in zip(cut, masks[place], strict=True):
            parts = ([states[:, :, run] for run in piece.keys] for states in (key, value))
            keys, values = (p[0] if len(p) == 1 else torch.cat(p, dim=2) for p in parts)
            output, _ = sdpa_attention_forward(
                module, query[:, :, piece.queries], keys, values, mask, is_causal=True, **kwargs
            )
            outputs.append(output)
        return torch.cat(outputs, dim=1), None

    ALL_ATTENTION_FUNCTIONS[NAME] = attend
    try:
        with _attending_with(NAME, base):
            yield
    finally:
        del ALL_ATTENTION_FUNCTIONS[NAME]  # it may hold masks


def mask_taking_attention(base: PreTrainedModel) -> AbstractContextManager[None]:
    """Let a model attend with an implementation that takes 4D masks, and put its own back.

    Flash attention fails with such a mask.
    """
    if takes_masks(base.config.get_text_config()):
        return nullcontext()
    return _attending_with("sdpa" if base._supports_sdpa else "eager", base)


def attention_mask(base: PreTrainedModel, batch: MicroBatch) -> Tensor | dict[str, Tensor]:
    """Return the tree mask as the model takes it: one tensor, or one for each layer type."""
    config, masks = base.config.get_text_config(), {}
    for kind in layer_types(config):
        window = config.sliding_window if kind == "sliding_attention" else None
        chunk = config.attention_chunk_size if kind == "chunked_attention" else None
        mask = tree_mask(batch.subtree_ends, batch.position_ids, window=window, chunk=chunk)
        if config._attn_implementation == "eager":  # adds masks to scores: bool is silently wrong
            hidden = torch.finfo(base.dtype).min
            mask = torch.zeros_like(mask, dtype=base.dtype).masked_fill(~mask, hidden)
        masks[kind] = mask
    return masks if len(masks) > 1 else mask


def tree_mask(
    subtree_ends: Int[Tensor, "B N"],
    position_ids: Int[Tensor, "B N"],
    *,
    window: int | None = None,
    chunk: int | None = None,
) -> Bool[Tensor, "B 1 N N"]:
    """Say which key (last axis) each query sees: `k <= q < subtree_end[k]`, within a layer's reach.

    Args:
        subtree_ends: One past the row position of each token's last descendant.
        position_ids: Depth of each token. Reach is measured in depth: a row holds other branches.
        window: Sliding window in tokens, the query included.
        chunk: Chunk size in tokens: a query sees no other chunk than its own.

    Example:
        >>> subtree_ends = torch.tensor([[4, 2, 4, 4]])  # 1 and 2-3 are two branches of 0
        >>> tree_mask(subtree_ends, torch.tensor([[0, 1, 1, 2]]))[0, 0].int().tolist()
        [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]]
    """
    places = torch.arange(subtree_ends.shape[1], device=subtree_ends.device)
    visible = (places <= places[:, None]) & (places[:, None] < subtree_ends[:, None, :])
    queries, keys = position_ids[:, :, None], position_ids[:, None, :]
    if window is not None:
        visible &= queries - keys < window
    if chunk is not None:
        visible &= queries // chunk == keys // chunk
    return visible[:, None]
