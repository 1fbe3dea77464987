"""How much memory a forward pass that scores answers takes, and how many tokens fit."""

import torch
from torch import nn
from transformers import PreTrainedConfig

from .row_logps import causal_lm, compute_device

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
