"""The keys and values that generation leaves behind, so that scoring need not feed rollouts again.

Transformers' `generate` has fed every token of a rollout but the last, with the weights that score
it. The keys and values that it kept are those that the trunk of a packed row would have.
"""

from collections.abc import Mapping, Sequence
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


class GenerationCache(NamedTuple):
    """Keys and values of R left-padded rows of N tokens.

    Args:
        layers: Keys and values of each layer.
        token_ids: The tokens that were fed in each row, padding left out.
    """

    layers: list[tuple[Float[Tensor, "R G N d"], Float[Tensor, "R G N d"]]]
    token_ids: list[list[int]]

    def lengths(self, rollouts: Sequence[Rollout]) -> list[int]:
        """Return how many leading tokens of each rollout its row holds."""
        pairs = zip(rollouts, self.token_ids, strict=True)
        return [common_length(rollout.token_ids, fed) for rollout, fed in pairs]

    def prefix(self, layer: int, row: int, length: int) -> tuple[Tensor, Tensor]:
        """Return a layer's keys and values (1, G, length, d) of a row's leading tokens."""
        keys, values = self.layers[layer]
        start = keys.shape[2] - len(self.token_ids[row])
        place = slice(row, row + 1), slice(None), slice(start, start + length)
        return keys[place], values[place]

    def select(self, rows: Sequence[int]) -> "GenerationCache":
        """Return the cache of some rows, by their indices."""
        layers = [(keys[rows], values[rows]) for keys, values in self.layers]
        return GenerationCache(layers, [self.token_ids[row] for row in rows])


class GenerationRecorder:
    """Keep the cache of the last `generate` of a model inside a `with`.

    `generate` would return it with `return_dict_in_generate`; TRL asks it for the tokens alone.
    Nothing is kept of a model with dropout, which is active while TRL generates. Nothing is kept of
    a model with sharded parameters either: its processes must run equal forward passes.
    """

    def __init__(self, model: nn.Module):
        self._model = causal_lm(model)
        self._has_dropout = has_dropout(model)
        self._keeps = not (is_sharded(model) or self._has_dropout)
        self._has_generated = False
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
            self._cache, self._fed = cache, []
        self._fed.append(token_ids)
        self._last_positions = positions[:, -1]

    def cache(self, num_rollouts: int) -> GenerationCache | None:
        """Return what was kept if it holds all that was fed, with a row for each rollout.

        A cache does not hold all with attention windows, recurrent states or beams, or if rollouts
        were generated a few at a time.
        """
        if self._cache is None or {type(layer) for layer in self._cache.layers} != {DynamicLayer}:
            return None
        token_ids = torch.cat(self._fed, dim=1)
        layers = [(layer.keys, layer.values) for layer in self._cache.layers]
        if {keys.shape[::2] for keys, _ in layers} != {token_ids.shape}:
            return None
        if len(token_ids) != num_rollouts:
            return None
        rows = zip(token_ids.tolist(), self._last_positions.tolist(), strict=True)
        return GenerationCache(layers, [row[-1 - last :] for row, last in rows])
