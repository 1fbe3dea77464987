"""How much memory a forward pass that scores answers takes, and how many tokens fit; and what
training keeps in memory beside it.
"""

from typing import Any

import torch
from peft import PeftConfig, get_peft_model
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedConfig

from .wrapped_models import causal_lm, compute_device

CPU_TOKENS = 4096
"""Longer rows outgrow a CPU's caches: 16384 tokens at once cost a fifth more time each."""

MAX_TOKENS = 65536
MEMORY_SHARE = 0.25
"""Of the free memory: the allocator's fragments and the gathered parameters need the rest."""

READS_PER_TOKEN = 0.75
"""Positions at which logits are kept, at most: a completion's own tokens and the answers'."""


def scoring_bytes_per_token(config: PreTrainedConfig, dtype: torch.dtype) -> int:
    """Estimate the peak of a scoring pass in bytes per token, parameters not counted.

    The larger of two moments: inside an MLP (the residual, its norm and the sum; the gate, the
    other projection and their product), and behind the head (the last hidden states and the logits
    that are read). For mixtures of experts, an MLP of all experts that a token is sent to.

    Args:
        config: The model's configuration.
        dtype: What the forward computes in.
    """
    text = config.get_text_config()
    width = getattr(text, "moe_intermediate_size", None) or getattr(text, "intermediate_size", None)
    experts = getattr(text, "num_experts_per_tok", None) or 1
    inside = 4 * text.hidden_size + 3 * (width or 4 * text.hidden_size) * experts
    behind = 2 * text.hidden_size + READS_PER_TOKEN * text.vocab_size
    return round(max(inside, behind) * dtype.itemsize)


def scoring_token_budget(model: nn.Module) -> int:
    """Choose how many tokens a scoring pass may feed: what fits, and on a CPU what is fast."""
    device = compute_device(model)
    memory_of = getattr(torch.get_device_module(device), "mem_get_info", None)
    if memory_of is None:  # CPU, MPS
        return CPU_TOKENS
    free, _ = memory_of(device)
    autocasts = torch.is_autocast_enabled(device.type)
    dtype = torch.get_autocast_dtype(device.type) if autocasts else causal_lm(model).dtype
    per_token = scoring_bytes_per_token(causal_lm(model).config, dtype)
    return max(1, min(MAX_TOKENS, int(MEMORY_SHARE * free) // per_token))


def count_parameters(
    config: PreTrainedConfig, peft_config: PeftConfig | None = None
) -> tuple[int, int]:
    """Count a model's parameters, and those of them that are trained, without making them."""
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config)
        if peft_config is not None:
            model = get_peft_model(model, peft_config)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return sum(p.numel() for p in model.parameters()), trained


def optimizer_bytes(optim: str, itemsize: int) -> int:
    """Bytes that an optimizer keeps for a parameter, with states of `itemsize` bytes each.

    Args:
        optim: Its name in `TrainingArguments.optim`.
        itemsize: Bytes of a state, unless the name says 8 bits.

    Example:
        >>> optimizer_bytes("adamw_torch_fused", 4), optimizer_bytes("lion_8bit", 4)
        (8, 1)
    """
    if "sgd" in optim or "adafactor" in optim:
        return 0
    num_states = 1 if any(name in optim for name in ("lion", "rmsprop", "adagrad")) else 2
    return num_states * (1 if "8bit" in optim else itemsize)


def training_bytes(
    total: int,
    trained: int,
    *,
    itemsize: float,
    trained_itemsize: int,
    state_bytes: int,
    stage: int,
    num_processes: int,
) -> dict[str, float]:
    """Estimate what lies on a device through the whole of training, activations not counted.

    Args:
        total: Number of parameters.
        trained: How many of them are trained.
        itemsize: Bytes of a parameter that is not.
        trained_itemsize: Bytes of one that is, and of its gradient.
        state_bytes: Bytes that the optimizer keeps for it.
        stage: What is spread over the processes, as ZeRO's stages: from 1 on the optimizer's
            states, from 2 on the gradients, from 3 on the parameters.
        num_processes: Over how many.
    """
    sizes = {
        "parameters": (trained * trained_itemsize + (total - trained) * itemsize, 3),
        "gradients": (trained * trained_itemsize, 2),
        "optimizer states": (trained * state_bytes, 1),
    }
    return {
        name: size / (num_processes if stage >= spread_from else 1)
        for name, (size, spread_from) in sizes.items()
    }
