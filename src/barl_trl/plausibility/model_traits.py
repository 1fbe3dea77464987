"""What a model is, and what it allows: its wrappers, its layers, its attention and its head.

All of it is told by a model's configuration and the types of its modules. What it does is compared
once (`comparison`).
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from peft import PeftModel
from torch import nn
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from transformers import PreTrainedConfig, PreTrainedModel

from .rows import Layout

ROPE_DEPENDS_ON_LENGTH = "its rotary embedding depends on the longest row (dynamic or longrope)"
RELATIVE_ROPES = {"default", "linear", "llama3", "proportional", "yarn"}
"""Rotary embeddings of which attention sees nothing but distances between tokens."""
COUNT_PLACES = {"beam", "blt", "doge"}
"""Families that count places without a word of it in their configuration."""


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
    sines = ("embed_positions", "pos_encoding")  # buffers of GPT-J, CodeGen and CTRL
    sizes += [len(buffer) for name, buffer in base.named_buffers() if name.endswith(sines)]
    return min([*sizes, most]) if sizes else None


def _rope_parameters(config: PreTrainedConfig) -> list[dict[str, Any]]:
    """Return the parameters of the rotary embeddings: one for the model, or for each layer type."""
    ropes = layer_values(config, "rope_parameters")
    parts = [part for rope in ropes for part in (rope, *rope.values()) if isinstance(part, dict)]
    return [part for part in parts if "rope_type" in part]


def _rope_depends_on_length(config: PreTrainedConfig) -> bool:
    """Say whether a token's rotary embedding depends on the longest row of its batch."""
    ropes = _rope_parameters(config)
    return any(rope["rope_type"] in ("dynamic", "longrope") for rope in ropes)


def _depends_on_place(config: PreTrainedConfig) -> bool:
    """Say whether attention counts places in the row: ALiBi, GPT-Neo's windows, Llama 4's scale."""
    names = ("alibi", "attention_types", "attn_temperature_tuning")
    return any(any(layer_values(config, name)) for name in names)


def why_same_length(model: nn.Module) -> str | None:
    """Say why only rows of equal length may meet in a padded batch; None if a model allows others.

    Where attention goes to the top k places of a row, the row's width breaks ties: too rarely for a
    comparison to see it.
    """
    base = causal_lm(model)
    if _rope_depends_on_length(base.config.get_text_config()):
        return ROPE_DEPENDS_ON_LENGTH
    if any("Indexer" in type(module).__name__ for module in base.modules()):
        return "it picks the top k places of a row, and padding may change which"
    return None


def depends_on_left_padding(model: nn.Module) -> bool:
    """Say whether padding on the left, without `position_ids`, may change a token's logits.

    It may, unless attention is known to see distances alone: positions may count the padding, or it
    may leak into a recurrent state or a convolution.
    """
    base = causal_lm(model)
    config = base.config.get_text_config()
    ropes = _rope_parameters(config)
    sees_distances_alone = (
        type(base).__module__.startswith("transformers.")
        and base.config.model_type not in COUNT_PLACES
        and bool(ropes)
        and all(rope["rope_type"] in RELATIVE_ROPES for rope in ropes)
        and not any("llama_4_scaling_beta" in rope for rope in ropes)
        and not _depends_on_place(config)
        and table_positions(model) is None
        and layer_types(config) <= {"full_attention", "sliding_attention"}
        and not base._is_stateful
        and not any(isinstance(module, nn.Conv1d) for module in base.modules())
        and why_same_length(model) is None
        and not _learns_prompts(model)
    )
    return not sees_distances_alone


def _learns_prompts(model: nn.Module) -> bool:
    """Say whether PEFT puts tokens of its own in front of every row."""
    adapted = (module for module in model.modules() if isinstance(module, PeftModel))
    return any(module.active_peft_config.is_prompt_learning for module in adapted)


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
    if _depends_on_place(config):
        return "its attention depends on more than position_ids (alibi, or places in the row)"
    if _rope_depends_on_length(config):
        return ROPE_DEPENDS_ON_LENGTH
    if not (takes_masks(config) or base._can_set_attn_implementation()):
        return f"its attention implementation {config._attn_implementation} takes no 4D mask"
    if _learns_prompts(model):
        return "PEFT prompt learning puts tokens of its own in front of every row"
    return None


def gather_head_with_model(model: nn.Module) -> None:
    """Have DeepSpeed's ZeRO-3 gather the LM head whenever a model runs, forward or backward.

    DeepSpeed learns the order of the modules from the pass that scores, which calls the LM head.
    TRL's loss reads the head's weight without calling the head, so that its backward pass would
    find the weight partitioned, and fail.
    """
    import deepspeed  # pyright: ignore[reportMissingImports]  # from the extra `deepspeed`

    base = causal_lm(model)
    head = base.get_output_embeddings()
    for parameter in head.parameters() if head is not None else ():
        deepspeed.zero.register_external_parameter(base, parameter)
