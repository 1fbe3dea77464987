"""Attention along trees: piece by piece over packed rows, or with a mask over padded ones.

With a mask over a whole packed row, a causal kernel could not skip the future, which is half of all
pairs, and the mask would grow with the square of the row's length. Here a row's tokens go through
the model together, and attention runs for each block on its own: causal along trunks, and masked on
branches only. Pieces of about the same size share a call of transformers' sdpa, padded, so that
many rollouts launch as many kernels as few.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .model_traits import layer_types, takes_masks
from .rows import MicroBatch

NAME = "barl_tree"


class Limits(NamedTuple):
    """How large a call of attention may be."""

    queries: int  # of a masked piece
    pairs: int  # of query and key, in a call of several pieces
    padded: float  # pairs for each that is not padding
    multiple: int  # what divides the numbers of queries and of keys


CPU = Limits(128, 2**18, 1.0, 1)
"""A mask of 1 MB fits into the caches. Padding would cost time, and change the last bits."""
GPU = Limits(2048, 2**27, 1.5, 8)
"""A launch costs more than padding does. Kernels copy a mask whose width 8 does not divide."""

_Piece = tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]
"""Places of queries, and of the keys among which they see theirs. Those after them are cut off."""


class Call(NamedTuple):
    """Pieces in one call; `stops` is one past the last query that sees a key, 0 in padding."""

    queries: Int[Tensor, "B Q"]
    keys: Int[Tensor, "B K"]
    stops: Int[Tensor, "B K"]
    is_causal: bool

    def mask(self, device: torch.device, dtype: torch.dtype, times: int = 1) -> Tensor | None:
        """Return what is added to the scores, `[B, 1, times Q, K]`: 0 or -inf. None if causal.

        The queries of `times` heads, which share a key, follow one another.
        """
        if self.is_causal:
            return None
        queries, keys, stops = (places.to(device) for places in self[:3])
        visible = (keys[:, None] <= queries[:, :, None]) & (queries[:, :, None] < stops[:, None])
        return torch.where(visible, 0.0, -torch.inf).to(dtype).repeat(1, times, 1)[:, None]


def calls(batch: MicroBatch, limits: Limits) -> tuple[list[Call], Int[Tensor, " N"]]:
    """Cut a packed micro-batch into calls; also return each token's place among their queries."""
    ends, made = batch.subtree_ends[0].numpy(), []  # torch's small operations take longer
    for is_causal, pieces in enumerate(_pieces(batch, ends, limits.queries)):
        for group in _alike(pieces, limits):
            queries, keys = (_table([*runs], limits.multiple) for runs in zip(*group, strict=True))
            sizes = np.array([[len(own)] for _, own in group])
            stops = np.where(np.arange(keys.shape[1]) < sizes, ends[keys], 0)
            places = map(torch.from_numpy, (queries, keys, stops))
            made.append(Call(*places, is_causal=bool(is_causal)))
    queries = np.concatenate([call.queries.flatten() for call in made])
    return made, torch.from_numpy(np.unique(queries, return_index=True)[1])


def _pieces(
    batch: MicroBatch, ends: Int[np.ndarray, " N"], queries: int
) -> tuple[list[_Piece], list[_Piece]]:
    """Cut a packed micro-batch into masked pieces of at most some queries, and causal ones."""
    masked, causal = [], []
    for shift, row in batch.rows:
        for block in row.blocks:
            shared, start, trunk_stop, stop = (shift + place for place in block[:4])
            # the whole trunk through the causal kernel, unless one masked call holds the block
            is_causal = shared == shift and stop - start > queries
            if is_causal:
                causal.append((np.arange(start, trunk_stop),) * 2)
            for first in range(trunk_stop if is_causal else start, stop, queries):
                last = min(first + queries, stop)
                keys = np.concatenate([np.arange(shift, shared), np.arange(start, last)])
                # branches of shallow states see none of the trunk after them
                masked.append((np.arange(first, last), keys[ends[keys] > first]))
    return masked, causal


def _alike(pieces: Sequence[_Piece], limits: Limits) -> list[Sequence[_Piece]]:
    """Group pieces of about the same size: the range of sizes is halved until little is padding."""
    sizes = np.array([[len(queries), len(keys)] for queries, keys in pieces]).reshape(-1, 2)
    most = sizes.max(0, initial=1)
    if len(pieces) * most.prod() <= limits.padded * sizes.prod(1).sum() or len(pieces) < 2:
        step = max(1, limits.pairs // int(most.prod()))
        return [pieces[n : n + step] for n in range(0, len(pieces), step)]
    least = sizes.min(0)
    axis = (most / least).argmax()
    is_small = sizes[:, axis] ** 2 < least[axis] * most[axis]
    halves = ([pieces[n] for n in np.flatnonzero(half).tolist()] for half in (is_small, ~is_small))
    return [group for half in halves for group in _alike(half, limits)]


def _table(rows: Sequence[Int[np.ndarray, " _"]], multiple: int) -> Int[np.ndarray, "B W"]:
    """Stack rows, each padded with its last place to a multiple of a width."""
    width = -(-max(map(len, rows)) // multiple) * multiple
    return np.stack([row[np.minimum(np.arange(width), len(row) - 1)] for row in rows])


def _gathered(
    states: Float[Tensor, "1 h N d"], places: Int[Tensor, "B M"]
) -> Float[Tensor, "B h M d"]:
    """Copy the states at some places."""
    chosen = states[0].transpose(0, 1).index_select(0, places.flatten())
    return chosen.view(*places.shape, *chosen.shape[1:]).transpose(1, 2)


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
    cut, order = calls(batch, GPU if base.device.type == "cuda" else CPU)
    placed: dict[tuple[torch.device, torch.dtype, int], tuple[list[tuple], Tensor]] = {}

    def attend(module, query, key, value, attention_mask, is_causal=None, **kwargs):
        # once for all layers: kernels turn a boolean mask into this one at every call
        device, *_, shared = place = query.device, query.dtype, query.shape[1] // key.shape[1]
        if place not in placed:
            moved = [(c.queries.to(device), c.keys.to(device), c.mask(*place)) for c in cut]
            placed[place] = moved, order.to(device)
        made, back = placed[place]
        outputs = []
        for queries, keys, mask in made:
            q, k, v = _gathered(query, queries), _gathered(key, keys), _gathered(value, keys)
            if mask is None:
                out, _ = sdpa_attention_forward(module, q, k, v, None, is_causal=True, **kwargs)
            else:
                # kernels with a mask take no keys that heads share: one head has all their queries
                q, owner = q.reshape(len(q), key.shape[1], -1, q.shape[-1]), nn.Module()
                out, _ = sdpa_attention_forward(owner, q, k, v, mask, **kwargs)
                out = out.unflatten(1, (shared, -1)).permute(0, 2, 3, 1, 4).flatten(2, 3)
            outputs.append(out.flatten(0, 1))
        return torch.cat(outputs)[back][None], None

    ALL_ATTENTION_FUNCTIONS[NAME] = attend
    try:
        with _attending_with(NAME, base):
            yield
    finally:
        del ALL_ATTENTION_FUNCTIONS[NAME]  # it may hold masks


def mask_taking_attention(base: PreTrainedModel) -> AbstractContextManager[None]:
    """Let a model attend with an implementation that takes 4D masks, which flash does not."""
    if takes_masks(base.config.get_text_config()):
        return nullcontext()
    return _attending_with("sdpa" if base._supports_sdpa else "eager", base)


def attention_mask(
    base: PreTrainedModel, batch: MicroBatch, device: torch.device
) -> Tensor | dict[str, Tensor]:
    """Return the tree mask as the model takes it: one tensor, or one for each layer type."""
    config, masks = base.config.get_text_config(), {}
    ends, depths = batch.subtree_ends.to(device), batch.position_ids.to(device)
    for kind in layer_types(config):
        window = config.sliding_window if kind == "sliding_attention" else None
        chunk = config.attention_chunk_size if kind == "chunked_attention" else None
        mask = tree_mask(ends, depths, window=window, chunk=chunk)
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

    Reach is a sliding `window` of tokens, the query included, or the query's own `chunk`. Both are
    measured in depth (`position_ids`), because a row holds other branches.

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
