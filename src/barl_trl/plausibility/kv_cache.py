"""The keys and values that generation leaves behind, so that scoring need not feed rollouts again.

Transformers' `generate` has fed every token of a rollout but the last, with the weights that score
it. The keys and values that it kept are those that the trunk of a packed row would have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import __version__
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from .checks.model_traits import (
    causal_lm,
    has_dropout,
    is_sharded,
    shared_layout,
    why_not_shared_prefix,
)
from .queries import Rollout
from .tree.answer_trie import common_length

NOT_KEPT = (
    "generation kept no keys and values that scoring can go on from, so it feeds every rollout "
    "once more. They must be in a DynamicCache that holds all tokens and has a row for each "
    "rollout: set neither num_beams nor use_cache in generation_kwargs, no cache_implementation, "
    "and no use_transformers_continuous_batching. If you set none of them, barl-trl does not know "
    f"how transformers {__version__} hands its cache on (docs/versions.md)."
)


def cache_of(arguments: Mapping[str, Any]) -> Any:
    """Return the cache among what goes into a forward or comes out of it; None if there is none.

    Its name depends on the version: transformers 5.24 renamed `past_key_values` to `cache`.
    """
    return next((value for value in arguments.values() if isinstance(value, Cache)), None)


class CachedRow(NamedTuple):
    """Keys and values of the N leading tokens of a sequence."""

    layers: list[tuple[Float[Tensor, "1 G N d"], Float[Tensor, "1 G N d"]]]
    """Keys and values of each layer."""
    token_ids: list[int]
    """The tokens that were fed."""


@dataclass(frozen=True, eq=False)
class GenerationCache:
    """Keys and values of the leading tokens of rollouts, one row for each rollout."""

    rows: list[CachedRow]

    def lengths(self, rollouts: Sequence[Rollout]) -> list[int]:
        """Return how many leading tokens of each rollout its row holds."""
        pairs = zip(rollouts, self.rows, strict=True)
        return [common_length(rollout.token_ids, row.token_ids) for rollout, row in pairs]

    def prefix(self, layer: int, row: int, length: int) -> tuple[Tensor, Tensor]:
        """Return a layer's keys and values (1, G, length, d) of a row's leading tokens."""
        keys, values = self.rows[row].layers[layer]
        return keys[:, :, :length], values[:, :, :length]

    def select(self, rows: Sequence[int]) -> "GenerationCache":
        """Return the cache of some rows, by their indices."""
        return GenerationCache([self.rows[row] for row in rows])


class GenerationRecorder:
    """Keep the caches of a model's calls of `generate` inside a `with`.

    `generate` would return its cache with `return_dict_in_generate`; TRL asks for the tokens alone.
    TRL calls `generate` once for each turn of agents, with the rollouts that go on. What a later
    call computes again is dropped when that call begins.
    Nothing is kept of a model with dropout, which is active while TRL generates. Nothing is kept of
    a model with sharded parameters either: its processes must run equal forward passes.

    Args:
        model: The model that generates.
        keeps: Whether anything is kept.
    """

    def __init__(self, model: nn.Module, *, keeps: bool = True):
        self._model = causal_lm(model)
        self._has_dropout = has_dropout(model)
        self._keeps = keeps and not (is_sharded(model) or self._has_dropout)
        self._has_generated = False
        self._rows: list[CachedRow] = []
        self._sizes: list[int] = []  # rows of each call; 0 if they do not hold all that was fed
        self._cache: Any = None
        self._fed: list[Tensor] = []
        self._last_positions: Any = None

    def __enter__(self) -> "GenerationRecorder":
        self._hook = self._model.register_forward_pre_hook(self._see, with_kwargs=True)
        return self

    def __exit__(self, *_) -> None:
        self._hook.remove()

    def advice(self, cache: GenerationCache | None) -> str | None:
        """Say why there is no cache although there could be one; None in other cases."""
        if cache is not None or not self._has_generated:
            return None
        if self._has_dropout:
            return (
                "the model has dropout, which is active while TRL generates: scoring cannot go on "
                "from generation's keys and values and feeds every rollout once more. Set "
                "lora_dropout (peft_config's, or the recipe's), or the dropout of the model's "
                "configuration, to 0."
            )
        is_due = shared_layout(self._model) == "packed" and not why_not_shared_prefix(self._model)
        return NOT_KEPT if self._keeps and is_due else None

    def _see(self, _, args, kwargs) -> None:
        self._has_generated = True
        cache = cache_of(kwargs)
        token_ids, positions = kwargs.get("input_ids"), kwargs.get("position_ids")
        if not self._keeps or type(cache) is not DynamicCache or token_ids is None:
            return
        if positions is None or positions.shape != token_ids.shape:
            return
        if cache is not self._cache:
            self._keep_rows()
            self._drop_repeated(_rows_of(token_ids, positions[:, -1]))
            self._cache = cache
        self._fed.append(token_ids)
        self._last_positions = positions[:, -1]

    def cache(self, sequences: Sequence[Sequence[int]]) -> GenerationCache | None:
        """Return what was kept, if the first call of `generate` had a row for each rollout.

        Each rollout gets the row that shares most leading tokens with it. A cache does not hold all
        that was fed with attention windows, recurrent states or beams.

        Args:
            sequences: Token ids of the prompt and the completion of each rollout.
        """
        self._keep_rows()
        if not self._rows or self._sizes[0] != len(sequences):
            return None
        longest = max(len(row.token_ids) for row in self._rows)
        fed = torch.full((len(self._rows), longest), -1)
        for place, row in zip(fed, self._rows, strict=True):
            place[: len(row.token_ids)] = torch.tensor(row.token_ids)
        best = []
        for n, sequence in enumerate(sequences):
            wanted = torch.full((longest,), -2)
            wanted[: len(sequence)] = torch.tensor(sequence[:longest])
            shared = (fed == wanted).long().cumprod(dim=1).sum(dim=1)
            is_own = n < len(shared) and shared[n] == shared.max()  # after one call, row n is n's
            best.append(n if is_own else int(shared.argmax()))
        return GenerationCache([self._rows[row] for row in best])

    def _keep_rows(self) -> None:
        """Keep the rows of the cache of the last call, if it holds all that was fed."""
        cache, fed, self._cache, self._fed = self._cache, self._fed, None, []
        if cache is None:
            return
        self._sizes.append(0)
        token_ids = torch.cat(fed, dim=1)
        if {type(layer) for layer in cache.layers} != {DynamicLayer}:
            return
        layers = [(layer.keys, layer.values) for layer in cache.layers]
        if {keys.shape[::2] for keys, _ in layers} != {token_ids.shape}:
            return
        self._sizes[-1] = len(token_ids)
        for n, ids in enumerate(_rows_of(token_ids, self._last_positions)):
            place = slice(n, n + 1), slice(None), slice(token_ids.shape[1] - len(ids), None)
            row = [(keys[place], values[place]) for keys, values in layers]
            self._rows.append(CachedRow(row, ids))

    def _drop_repeated(self, sequences: Sequence[list[int]]) -> None:
        """Drop the rows that a call of `generate` computes again, and free their memory.

        Args:
            sequences: The tokens with which the call begins, of each of its rows.
        """
        kept = []
        for layers, ids in self._rows:
            # rows that ended before others were fed padding
            length = len(ids) - sum(1 for _ in takewhile(ids[-1].__eq__, reversed(ids)))
            if not any(ids[:length] == sequence[:length] for sequence in sequences):
                kept.append(CachedRow([(_alone(k), _alone(v)) for k, v in layers], ids))
        self._rows = kept


def _alone(tensor: Tensor) -> Tensor:
    """Return a tensor in a storage of its own, so that the rest of the storage can be freed."""
    is_alone = tensor.untyped_storage().nbytes() == tensor.nbytes
    return tensor if is_alone else tensor.clone()


def _rows_of(token_ids: Tensor, last_positions: Tensor) -> list[list[int]]:
    """Return the token ids of left-padded rows without the padding."""
    rows = zip(token_ids.tolist(), last_positions.tolist(), strict=True)
    return [row[-1 - last :] for row, last in rows]
