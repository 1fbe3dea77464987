"""The keys and values that generation leaves behind: rollouts that scoring need not feed again.

Transformers' `generate` has fed every token of a rollout but the last, with the weights that score
it. The keys and values that it kept are those of the trunk of a packed row.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache, DynamicLayer

from .answer_trie import common_length
from .model_traits import causal_lm, has_dropout, is_sharded
from .queries import Rollout


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
        """Return some of the rows."""
        layers = [(keys[rows], values[rows]) for keys, values in self.layers]
        return GenerationCache(layers, [self.token_ids[row] for row in rows])


class GenerationRecorder:
    """Keep the cache of the last `generate` of a model inside a `with`.

    `generate` would return it with `return_dict_in_generate`; TRL asks it for the tokens alone.
    Nothing is kept of a model with dropout, which is active while TRL generates, and of one whose
    parameters are sharded: its processes must run equal forwards.
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

    @property
    def dropout_advice(self) -> str | None:
        """What to say of a model that generated with dropout, None of another one."""
        if not (self._has_dropout and self._has_generated):
            return None
        return (
            "the model has dropout, which is active while TRL generates: scoring cannot go on from "
            "generation's keys and values and feeds every rollout once more. Set lora_dropout "
            "(peft_config's, or the recipe's), or the dropout of the model's configuration, to 0."
        )

    def _see(self, _, args, kwargs) -> None:
        self._has_generated = True
        names = ("past_key_values", "input_ids", "position_ids")
        cache, token_ids, positions = map(kwargs.get, names)
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

        It does not hold all with attention windows, recurrent states, beams, or rollouts that were
        generated a few at a time.
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
