"""Greedy decoding of a batch that shrinks: rows that have ended cost nothing more.

`generate` goes on with every row until the last one ends. On a CPU, where time goes with the number
of rows, most of that is wasted. This is a decoding loop for its `custom_generate`: `generate`
prepares inputs and cache, as for its own loops.
"""

import logging
from functools import cache
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, __version__
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

logger = logging.getLogger(__name__)

SHRINK_AT = 7 / 8
"""Share of rows still running at which the others are dropped, for that copies the cache."""


class RowsProcessor(LogitsProcessor):
    """A processor with a state for each row, which is told when rows are dropped."""

    def keep(self, rows: list[int]) -> None:
        """Go on with these rows only, in this order."""
        raise NotImplementedError


def decode_shrinking(
    model: Any,
    input_ids: Tensor,
    *,
    logits_processor: LogitsProcessorList,
    generation_config: GenerationConfig,
    stopping_criteria: Any = None,
    **model_kwargs: Any,
) -> Tensor:
    """Return prompts and completions as `generate` does, `[B, L + T]` for at most T tokens.

    Args:
        model: A causal language model of transformers.
        input_ids: The prompts, padded on the left, `[B, L]`.
        logits_processor: Changes the logits of the next token. Those with a state for each row are
            [`RowsProcessor`]s.
        generation_config: Has the tokens that end a row, the padding that then stands after it,
            and the length L + T.
        stopping_criteria: In the signature of such a loop; rows end by token and length alone.
        **model_kwargs: What `generate` prepared for the forward pass: cache, mask and the like.
    """
    config: Any = generation_config
    ends, pad = config._eos_token_tensor, config._pad_token_tensor
    rows = torch.arange(len(input_ids), device=input_ids.device)
    prompts, max_tokens = input_ids, config.max_length - input_ids.shape[1]
    completed = pad.repeat(len(rows), max_tokens)
    running, sequence_length = torch.ones_like(rows, dtype=torch.bool), None
    for place in range(max_tokens):
        inputs = model.prepare_inputs_for_generation(
            input_ids,
            next_sequence_length=sequence_length,
            is_first_iteration=place == 0,
            **model_kwargs,
        )
        output, sequence_length = model(**inputs, return_dict=True), 1
        model_kwargs = model._update_model_kwargs_for_generation(output, model_kwargs)
        logits = output.logits[:, -1].to(copy=True, dtype=torch.float32, device=input_ids.device)
        del output, inputs  # the first logits may be large
        tokens = logits_processor(input_ids, logits).argmax(dim=-1)
        tokens = torch.where(running, tokens, pad)
        completed[rows, place] = tokens
        input_ids = torch.cat([input_ids, tokens[:, None]], dim=1)
        running = running & ~torch.isin(tokens, ends)
        left = int(running.sum())
        if not left:
            break
        if left > SHRINK_AT * len(rows):
            continue
        if can_shrink(model_kwargs, len(rows)):
            kept = running.nonzero()[:, 0]
            model_kwargs = _shrunk(model_kwargs, kept)
            for processor in logits_processor:
                if isinstance(processor, RowsProcessor):
                    processor.keep(kept.tolist())
            input_ids, rows, running = input_ids[kept], rows[kept], running[kept]
        elif not model._is_stateful:
            given = [f"{key}: {type(value).__name__}" for key, value in model_kwargs.items()]
            _say_once(type(model).__name__, ", ".join(given))
    return torch.cat([prompts, completed], dim=1)


@cache
def _say_once(model: str, given: str) -> None:
    logger.warning(
        f"{model} is fed with rows that have ended. They can be taken out of a DynamicCache of "
        "attention's keys and values, and out of tensors with a row for each; transformers "
        f"{__version__} hands on {given} (docs/versions.md)."
    )


def can_shrink(model_kwargs: dict[str, Any], batch: int) -> bool:
    """Whether rows can be taken out of all that goes from one forward pass to the next.

    That is keys and values, and tensors with a row for each. Recurrent states and the caches of
    models' own code are let be.
    """
    cache = _cache_of(model_kwargs)
    layers = (DynamicLayer, DynamicSlidingWindowLayer)
    others = [value for value in model_kwargs.values() if isinstance(value, Tensor)]
    return (
        type(cache) is DynamicCache
        and all(type(layer) in layers for layer in cache.layers)
        and all(value.ndim == 2 and len(value) == batch for value in others)
    )


def _cache_of(model_kwargs: dict[str, Any]) -> Any:
    from ..plausibility.kv_cache import cache_of  # only now: its imports take a second

    return cache_of(model_kwargs)


def _shrunk(model_kwargs: dict[str, Any], kept: Tensor) -> dict[str, Any]:
    _cache_of(model_kwargs).batch_select_indices(kept)
    return {
        name: value[kept] if isinstance(value, Tensor) else value
        for name, value in model_kwargs.items()
    }
