"""Log-probabilities of the scored tokens of rows, through a model's public forward.

Only `model(...)` is called, so that PEFT, DDP, FSDP and DeepSpeed wrappers do their work. The head
runs at the positions that are read, attention gets the tree in the form that it takes.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.distributed.fsdp import FullyShardedDataParallel
from transformers import PreTrainedConfig, PreTrainedModel

from .generation_cache import GenerationCache
from .micro_batches import MicroBatch, packed_micro_batches, padded_micro_batches, tree_mask
from .packing import Block, Row
from .rollouts import Rollout
from .tree_attention import attending_with, tree_attention
from .wrapped_models import causal_lm, compute_device, largest_of_processes

HEAD_TILE = 256
"""Places whose logits are held at a time."""

Layout = Literal["packed", "masked", "plain"]
"""Trees behind each other in one row, with attention of their own; trees below each other, with a
mask; sequences.
"""


def token_logps(
    model: nn.Module,
    rollouts: Sequence[Rollout],
    rows: Sequence[Row],
    layout: Layout,
    max_tokens: int,
    temperature: float = 1.0,
    own_temperature: float = 1.0,
    cache: GenerationCache | None = None,
) -> tuple[Float[Tensor, "B S H L"], Float[Tensor, "B C"]]:
    """Compute the log-probability of every scored token, 0 elsewhere.

    Args:
        model: See `plausibility`.
        rollouts: All rollouts.
        rows: What to feed for them.
        layout: How.
        max_tokens: Tokens of one forward pass, padding included.
        temperature: Divides the logits of the answers' tokens.
        own_temperature: Divides those of the rollouts' own tokens.
        cache: What is known of packed rows.

    Returns:
        Log-probabilities of the answers' tokens and of the rollouts' own (from `read_from` on).
    """
    base, device = causal_lm(model), compute_device(model)
    answers = [answer for rollout in rollouts for answer in rollout.answers]
    logps = torch.zeros(
        len(rollouts),
        max((len(rollout.state_positions) for rollout in rollouts), default=0),
        max((len(rollout.answers) for rollout in rollouts), default=0) or 1,
        max((len(answer.token_ids) for answer in answers), default=0),
        device=device,
    )
    own_length = max((len(rollout.read_positions) for rollout in rollouts), default=0)
    own_logps = torch.zeros(len(rollouts), own_length, device=device)
    if layout == "packed":
        micro_batches = packed_micro_batches
    else:
        same_length = rope_depends_on_length(base.config.get_text_config())
        micro_batches = partial(padded_micro_batches, same_length=same_length)
    batches = list(micro_batches(rows, max_tokens))
    # The other processes wait for this one in every forward: it joins in without rows of its own.
    idle = list(micro_batches([Row([0], [0], [1], [], [Block(0, 0, 1, 1)])], 1))
    batches += idle * (largest_of_processes(model, len(batches)) - len(batches))
    for batch in batches:
        is_own = batch.targets[:, 1] < 0
        found = _read(model, batch, layout, (temperature, own_temperature), device, cache)
        logps[batch.targets[~is_own].unbind(-1)] = found[~is_own]
        own_logps[batch.targets[is_own][:, [0, 3]].unbind(-1)] = found[is_own]
    return logps, own_logps


def _read(
    model: nn.Module,
    batch: MicroBatch,
    layout: Layout,
    temperatures: tuple[float, float],
    device: torch.device,
    cache: GenerationCache | None,
) -> Float[Tensor, " K"]:
    """Run one forward pass and return the log-probability of each read in float32."""
    base = causal_lm(model)
    inputs: dict[str, object] = {"position_ids": batch.position_ids.to(device)}
    attention = nullcontext()
    if layout == "packed":
        attention = tree_attention(base, batch, cache)
    elif layout == "masked":
        attention = _mask_taking_attention(base)
    else:
        inputs = {"attention_mask": batch.attention_mask.long().to(device)}
    if getattr(base.config.get_text_config(), "output_router_logits", False):
        inputs["output_router_logits"] = False  # the balancing loss cannot use a 4D mask
    reads = _Reads(batch, temperatures)
    with attention:
        if layout == "masked":
            inputs["attention_mask"] = _attention_mask(base, batch.to(device))
        return _label_logps(model, batch.token_ids.to(device), reads, inputs).to(device)


class _Reads:
    """The places of a pass at which logits are read, and the labels that are looked up there."""

    def __init__(self, batch: MicroBatch, temperatures: tuple[float, float]):
        # a place may be read at two temperatures: without an elicitation, where an answer begins
        is_own = (batch.targets[:, 1] < 0).long()
        reads, index = (2 * batch.places + is_own).unique(return_inverse=True)
        self._places, self._length = reads // 2, batch.token_ids.shape[1]
        self._divisors = torch.tensor(temperatures)[reads % 2]
        self._order = index.argsort()
        self._index, self._labels = index[self._order], batch.labels[self._order]

    def at_places(self, values: Float[Tensor, "R M d"]) -> Float[Tensor, "P d"]:
        places, length = self._places.to(values.device), self._length
        # PEFT prompt tuning puts M - N tokens of its own in front of each row.
        return values[places // length, places % length + values.shape[1] - length]

    def logps(self, logits_of: Callable[[slice], Float[Tensor, "p V"]]) -> Float[Tensor, " K"]:
        """Log-probability of each label in float32, from the logits of `HEAD_TILE` places each."""
        found = []
        for first in range(0, len(self._places), HEAD_TILE):
            tile = slice(first, first + HEAD_TILE)
            a, b = torch.searchsorted(self._index, torch.tensor([tile.start, tile.stop])).tolist()
            logits, divisors = logits_of(tile).float(), self._divisors[tile, None]
            if (divisors != 1).any():
                logits = logits / divisors.to(logits.device)
            index = (self._index[a:b] - tile.start).to(logits.device)
            labels = self._labels[a:b].to(logits.device)
            found.append(logits[index, labels] - logits.logsumexp(-1)[index])
        logps = torch.cat(found) if found else torch.zeros(0)
        return torch.empty_like(logps).index_copy_(0, self._order.to(logps.device), logps)


_scaling_models: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
"""Whether a model does more to logits than its head does, once that is known."""


def _label_logps(
    model: nn.Module, token_ids: Int[Tensor, "R N"], reads: _Reads, inputs: dict[str, object]
) -> Float[Tensor, " K"]:
    """Run a forward pass whose LM head sees only the places that are read, some at a time.

    All logits at once would be the largest tensor of the pass. So the labels are looked up inside
    the head, where a sharded weight is gathered, and the model gets the logits of the first places
    only: if it returns others, all must go through it. `logits_to_keep` takes a choice of places
    since transformers 5.21; a hook on the head works in all.
    """
    base = causal_lm(model)
    scales = _scaling_models.get(base, scales_logits(base.config) or None)
    head: Any = base.get_output_embeddings()
    head = head.module if isinstance(head, FullyShardedDataParallel) else head
    found: dict[str, Tensor] = {}

    def pick(_, args):
        found["states"] = reads.at_places(args[0])[None]
        return (found["states"][:, : None if scales else HEAD_TILE],)

    def look_up(head, _, logits):
        states = found["states"]
        if not scales:
            found["logps"] = reads.logps(
                lambda tile: (head.forward(states[:, tile]) if tile.start else logits)[0]
            )
        if scales is None:
            found["logits"] = logits[0].clone()

    hooks = []
    if head is not None:
        hooks += [head.register_forward_pre_hook(pick)]
        hooks += [head.register_forward_hook(look_up, prepend=True)]
    try:
        logits = model(input_ids=token_ids, use_cache=False, **inputs).logits
    finally:
        for hook in hooks:
            hook.remove()
    if not found:  # the head is missing, or used without being called: all logits are there
        logits = reads.at_places(logits)
        return reads.logps(lambda tile: logits[tile])
    if scales is None:
        own = found["logits"].to(logits)
        seen = 2 - torch.allclose(logits[0], own, rtol=0, atol=0, equal_nan=True) if len(own) else 0
        # sharded parameters: either all processes run the pass again or none
        if (known := largest_of_processes(model, seen)) > 0:
            _scaling_models[base] = known == 2
        if known == 2:
            return _label_logps(model, token_ids, reads, inputs)
    return reads.logps(lambda tile: logits[0, tile]) if scales else found["logps"]


def scales_logits(config: PreTrainedConfig) -> bool:
    """Say whether a model scales or caps logits behind its head, by its description."""
    text = config.get_text_config()
    names = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier")
    return any(getattr(text, name, None) not in (None, 1) for name in names)


def _attention_mask(base: PreTrainedModel, batch: MicroBatch) -> Tensor | dict[str, Tensor]:
    """Return the tree mask as the model takes it: one tensor, or one for each layer type."""
    config, masks = base.config.get_text_config(), {}
    for kind in layer_types(config):
        window = config.sliding_window if kind == "sliding_attention" else None
        chunk = config.attention_chunk_size if kind == "chunked_attention" else None
        mask = tree_mask(batch.ends, batch.position_ids, window=window, chunk=chunk)
        if config._attn_implementation == "eager":  # adds masks to scores: bool is silently wrong
            hidden = torch.finfo(base.dtype).min
            mask = torch.zeros_like(mask, dtype=base.dtype).masked_fill(~mask, hidden)
        masks[kind] = mask
    return masks if len(masks) > 1 else mask


def layer_types(config: PreTrainedConfig) -> set[str]:
    """Return the kinds of layers; a model without `layer_types` masks all layers alike."""
    if getattr(config, "layer_types", None):
        return set(config.layer_types)
    windowed = getattr(config, "sliding_window", None) is not None
    return {"sliding_attention" if windowed else "full_attention"}


def rope_depends_on_length(config: PreTrainedConfig) -> bool:
    """Say whether a token's rotary embedding depends on the longest row of its batch."""
    rope = (
        getattr(config, "rope_parameters", None) or {}
    )  # of the model, or one dict per layer type
    parts = [rope, *(part for part in rope.values() if isinstance(part, dict))]
    return any(part.get("rope_type") in ("dynamic", "longrope") for part in parts)


def takes_trees(base: PreTrainedModel) -> bool:
    """Say whether attention can be replaced by `tree_attention`: no windows, no kernel of its own.

    Eager attention is taken for a reason: soft capping, sinks, a position bias.
    """
    config = base.config.get_text_config()
    return (
        base._supports_attention_backend
        and base._supports_sdpa
        and config._attn_implementation != "eager"
        and layer_types(config) == {"full_attention"}
    )


def takes_masks(config: PreTrainedConfig) -> bool:
    """Say whether the attention implementation takes a mask of any form."""
    return config._attn_implementation in ("sdpa", "eager")


def _mask_taking_attention(base: PreTrainedModel) -> AbstractContextManager[None]:
    """Switch to attention that takes 4D masks, then back; flash attention dies of them."""
    if takes_masks(base.config.get_text_config()):
        return nullcontext()
    return attending_with("sdpa" if base._supports_sdpa else "eager", base)
