"""What a model is, and what it allows: its wrappers, its layers, its attention and its head."""

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from peft import PeftModel
from torch import nn
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from transformers import PreTrainedConfig, PreTrainedModel

from ..tree.rows import Layout

ROPE_DEPENDS_ON_LENGTH = (
    "its rotary embedding depends on the longest row of a batch (dynamic or longrope)"
)


def causal_lm(model: nn.Module) -> PreTrainedModel:
    """Find the transformers model inside any wrappers of PEFT, DDP, FSDP and DeepSpeed."""
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            return module
    raise ValueError(
        f"model must be or wrap a transformers model, got {type(model).__name__}: pass a causal LM."
    )


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout and gradient checkpointing off, then put each module back into its state.

    A dynamic rotary embedding remembers the longest row that it has seen.
    """
    training = [module for module in model.modules() if module.training]
    rotary = [
        (module, {**vars(module)}, {**module._buffers})
        for module in model.modules()
        if hasattr(module, "max_seq_len_cached")
    ]
    model.eval()
    try:
        yield
    finally:
        for module, attributes, buffers in rotary:
            vars(module).update(attributes)
            module._buffers.update(buffers)
        for module in training:
            module.training = True


def is_sharded(model: nn.Module) -> bool:
    """Say whether parameters are gathered for every forward (FSDP, ZeRO-3)."""
    fsdp = any(isinstance(m, FSDPModule | FullyShardedDataParallel) for m in model.modules())
    return fsdp or any(hasattr(parameter, "ds_id") for parameter in model.parameters())


def compute_device(model: nn.Module) -> torch.device:
    """Return where forwards run: shards may rest on the CPU and be gathered elsewhere."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    resting = next(model.parameters()).device
    return accelerator if accelerator is not None and is_sharded(model) else resting


def largest_of_processes(model: nn.Module, value: int) -> int:
    """Return the largest value of all processes if they must run forwards together, else `value`.

    Sharded parameters are gathered in every forward: one that a process skips hangs the others.
    """
    if not (dist.is_initialized() and is_sharded(model)):
        return value
    largest = torch.tensor(value, device=compute_device(model))
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    return int(largest)


def has_dropout(model: nn.Module) -> bool:
    """Say whether a forward pass in training mode draws random numbers.

    It does with a dropout layer, a dropout rate of attention, or a router's jitter.
    """
    rates = [
        rate
        for module in model.modules()
        for name, rate in vars(module).items()
        if "drop" in name or "jitter" in name or (isinstance(module, nn.Dropout) and name == "p")
    ]
    return any(isinstance(rate, int | float) and rate > 0 for rate in rates)


def has_experts(model: nn.Module) -> bool:
    """Say whether tokens go to experts, whose rounding depends on how many tokens they get."""
    return any(re.search("(?i)expert|moe", type(module).__name__) for module in model.modules())


def layer_values(config: PreTrainedConfig, name: str) -> list[Any]:
    """Return the values of a setting: one for all layers, or one for each; [] if it is unset."""
    layers = config.per_layer_config if getattr(config, "is_heterogeneous", False) else [config]
    per_layer = [getattr(layer, name, None) for layer in layers]
    lists = [value if isinstance(value, list | tuple) else [value] for value in per_layer]
    return [value for several in lists for value in several if value is not None]


def layer_types(config: PreTrainedConfig) -> set[str]:
    """Return the kinds of layers; a model without `layer_types` masks all layers alike."""
    windowed = bool(layer_values(config, "sliding_window"))
    default = "sliding_attention" if windowed else "full_attention"
    return set(layer_values(config, "layer_types")) or {default}


def table_positions(model: nn.Module) -> int | None:
    """Return the number of positions in a model's table; None if it has no table.

    A table may have some rows more than there are positions (OPT), or begin after the row of the
    padding token (RoBERTa).
    """
    base = causal_lm(model)
    most = getattr(base.config.get_text_config(), "max_position_embeddings", None) or 0
    tokens = base.get_input_embeddings()
    sizes = [
        module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
        for module in base.modules()
        if isinstance(module, nn.Embedding)
        and module is not tokens
        and most in range(module.num_embeddings - 2, module.num_embeddings + 1)
    ]
    # GPT-J, CodeGen and CTRL have tables of sines, which are buffers
    sines = ("embed_positions", "pos_encoding")
    sizes += [len(buffer) for name, buffer in base.named_buffers() if name.endswith(sines)]
    return min([*sizes, most]) if sizes else None


def rope_depends_on_length(config: PreTrainedConfig) -> bool:
    """Say whether a token's rotary embedding depends on the longest row of its batch."""
    # one dict for the model, or one for each layer type
    ropes = layer_values(config, "rope_parameters")
    parts = [part for rope in ropes for part in (rope, *rope.values()) if isinstance(part, dict)]
    return any(part.get("rope_type") in ("dynamic", "longrope") for part in parts)


def scales_logits(config: PreTrainedConfig) -> bool:
    """Say whether a model scales or caps logits after its head, by its configuration."""
    text = config.get_text_config()
    names = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier")
    return any(getattr(text, name, None) not in (None, 1) for name in names)


def takes_masks(config: PreTrainedConfig) -> bool:
    """Say whether the attention implementation takes a mask of any form."""
    return config._attn_implementation in ("sdpa", "eager")


def shared_layout(model: nn.Module) -> Layout:
    """Return how a model takes rows that are trees: packed where its attention can be replaced.

    Attention with windows, or with a kernel of its own, cannot be replaced. Eager attention is not
    replaced, because models have it for a reason: soft capping, sinks, a position bias.
    """
    base = causal_lm(model)
    config = base.config.get_text_config()
    is_replaceable = (
        base._supports_attention_backend
        and base._supports_sdpa
        and config._attn_implementation != "eager"
        and layer_types(config) == {"full_attention"}
    )
    return "packed" if is_replaceable else "masked"


def why_not_shared_prefix(model: nn.Module) -> str | None:
    """Say why a model, by its configuration, cannot score rows that are trees; None if it may.

    Such rows need attention that sees only what a mask shows, and positions that `position_ids`
    gives.
    """
    base = causal_lm(model)
    config = base.config.get_text_config()
    others = layer_types(config) - {"full_attention", "sliding_attention", "chunked_attention"}
    if base._is_stateful or others:
        return f"its layers carry a recurrent state or are of an unknown type {sorted(others)}"
    if "position_ids" not in inspect.signature(type(base).forward).parameters:
        return "its forward takes no position_ids (ALiBi, or recurrent)"
    # GPT-Neo's local attention and Llama 4's attention temperature count places in the row.
    by_place = ("alibi", "attention_types", "attn_temperature_tuning")
    if any(any(layer_values(config, name)) for name in by_place):
        return f"its attention depends on more than position_ids (one of {', '.join(by_place)})"
    if rope_depends_on_length(config):
        return ROPE_DEPENDS_ON_LENGTH
    if not (takes_masks(config) or base._can_set_attn_implementation()):
        return f"its attention implementation {config._attn_implementation} takes no 4D mask"
    if any(
        isinstance(m, PeftModel) and m.active_peft_config.is_prompt_learning
        for m in model.modules()
    ):
        return "PEFT prompt learning puts tokens of its own in front of every row"
    return None
