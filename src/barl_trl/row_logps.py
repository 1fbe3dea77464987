"""Log-probabilities of the scored tokens of rows, through a model's public forward.

Only `model(...)` is called, so that PEFT, DDP, FSDP and DeepSpeed wrappers do their work. The head
runs at the positions that are read, attention gets the tree in the form that it takes.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from .generation_cache import GenerationCache
from .micro_batches import MicroBatch, packed_micro_batches, padded_micro_batches, tree_mask
from .packing import Block, Row
from .rollouts import Rollout
from .tree_attention import attending_with, tree_attention
from .wrapped_models import causal_lm, compute_device, largest_of_processes

HEAD_TILE = 64
"""Positions whose logits are held in float32 at a time."""

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
    # a place may be read at two temperatures: without an elicitation, where an answer begins
    is_own = (batch.targets[:, 1] < 0).long()
    reads, index = (2 * batch.places + is_own).unique(return_inverse=True)
    divisors = torch.tensor(temperatures)[reads % 2]
    with attention:
        if layout == "masked":
            inputs["attention_mask"] = _attention_mask(base, batch.to(device))
        places = (reads // 2).to(device)
        logits = _logits_at(model, batch.token_ids.to(device), places, **inputs)
    divisors = divisors.to(logits.device)[:, None]
    # A float32 copy of all logits would be the largest tensor of the pass.
    log_norms = [
        (tile.float() / divisor).logsumexp(-1)
        for tile, divisor in zip(logits.split(HEAD_TILE), divisors.split(HEAD_TILE), strict=True)
    ]
    index, labels = index.to(logits.device), batch.labels.to(logits.device)
    logps = logits[index, labels].float() / divisors[index, 0] - torch.cat(log_norms)[index]
    return logps.to(device)


def _logits_at(
    model: nn.Module, token_ids: Int[Tensor, "R N"], places: Int[Tensor, " P"], **inputs: object
) -> Float[Tensor, "P V"]:
    """Run a forward pass whose LM head sees only the places (row * N + position) that are read.

    `logits_to_keep` takes such a choice since transformers 5.21; a hook on the head works in all.
    """
    length = token_ids.shape[1]

    def at_places(values: Float[Tensor, "R M d"]) -> Float[Tensor, "P d"]:
        here = places.to(values.device)
        # PEFT prompt tuning puts M - N tokens of its own in front of each row.
        return values[here // length, here % length + values.shape[1] - length]

    head, hooks = causal_lm(model).get_output_embeddings(), []
    if head is not None:
        hooks.append(head.register_forward_pre_hook(lambda _, args: at_places(args[0])[None]))
    try:
        logits = model(input_ids=token_ids, use_cache=False, **inputs).logits
    finally:
        for hook in hooks:
            hook.remove()
    # The head may be missing, or used without being called: then all logits are there.
    return logits[0] if logits.shape[:2] == (1, len(places)) else at_places(logits)


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
