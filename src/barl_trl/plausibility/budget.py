"""How much memory a forward pass that scores answers takes, and how many tokens fit."""

import logging

import psutil
import torch
from torch import nn
from transformers import PreTrainedConfig

from .forward import HEAD_TILE
from .model_traits import (
    causal_lm,
    compute_device,
    is_sharded,
    largest_of_processes,
    layer_values,
    scales_logits,
)

CPU_TOKENS = 4096
"""Most tokens of a pass on a CPU: those of longer passes cost more, because they outgrow caches."""

MAX_TOKENS = 65536
"""Most tokens of a pass on an accelerator."""

MIN_TOKENS = 64
"""Fewest tokens of a pass: with fewer, no row is short enough to be spared."""

MEMORY_SHARE = 0.25
"""Share of the free memory for a pass; the rest is for fragments and gathered parameters."""

MEMORY_IS_SHORT = "memory is short: answers are scored %d tokens at a time"

logger = logging.getLogger(__name__)


def _peaks(config: PreTrainedConfig, dtype: torch.dtype) -> list[tuple[int, int]]:
    """Return the two memory peaks of a scoring pass, each as fixed bytes and bytes per token.

    The first is inside an MLP: the residual, its norm and the sum, and the gate, the other
    projection and their product; of a mixture of experts, for every expert of a token. The second
    is inside the head: the last hidden states, and the logits of `HEAD_TILE` places in 32 bits, as
    they are, divided by the temperature, and in exponents. A model that scales or caps logits after
    its head holds those of all places that are read, at most one for each token. Masks and the
    scores of eager attention are not counted.
    """
    text = config.get_text_config()
    parts = [getattr(text, name) for name in text.sub_configs]

    def widest(name: str, default: int = 0) -> int:
        sizes = layer_values(text, name) or [n for part in parts for n in layer_values(part, name)]
        return max(sizes, default=default)

    hidden = widest("hidden_size")
    width = widest("moe_intermediate_size") or widest("intermediate_size", 4 * hidden)
    states = 4 * hidden + 3 * width * widest("num_experts_per_tok", 1)
    logits = 3 * HEAD_TILE * text.vocab_size * torch.float32.itemsize
    behind = 2 * hidden + 3 * text.vocab_size * scales_logits(config)
    return [(0, states * dtype.itemsize), (logits, behind * dtype.itemsize)]


def scoring_bytes(config: PreTrainedConfig, dtype: torch.dtype, num_tokens: int) -> int:
    """Estimate the peak of a scoring pass in bytes, parameters not counted."""
    return max(fixed + num_tokens * each for fixed, each in _peaks(config, dtype))


def tokens_within(config: PreTrainedConfig, dtype: torch.dtype, num_bytes: int) -> int:
    """Count the tokens of the largest scoring pass with a peak of `num_bytes`; at least 1."""
    return max(1, min((num_bytes - fixed) // each for fixed, each in _peaks(config, dtype)))


def _tokens_that_fit(model: nn.Module, share: float) -> int:
    """Count the tokens of the largest scoring pass that a share of the free memory holds."""
    device = compute_device(model)
    accelerator = torch.get_device_module(device)
    if hasattr(accelerator, "mem_get_info"):
        cached = accelerator.memory_reserved(device) - accelerator.memory_allocated(device)
        free = accelerator.mem_get_info(device)[0] + cached
    else:  # CPU, MPS
        free = psutil.virtual_memory().available
    autocasts = torch.is_autocast_enabled(device.type)
    dtype = torch.get_autocast_dtype(device.type) if autocasts else causal_lm(model).dtype
    return tokens_within(causal_lm(model).config, dtype, int(share * free))


def scoring_token_budget(model: nn.Module) -> int:
    """Choose how many tokens a scoring pass may feed: what fits, and on a CPU what is fast."""
    most = CPU_TOKENS if compute_device(model).type in ("cpu", "mps") else MAX_TOKENS
    return min(most, _tokens_that_fit(model, MEMORY_SHARE))


def halved_together(model: nn.Module, max_tokens: int) -> int:
    """Halve a budget, on all processes alike, until each has twice the memory for it.

    Without sharded parameters the budget stays as it is. With them processes wait for each other in
    every forward pass, and once one of them has run out of memory, it is too late.
    """
    if not is_sharded(model):
        return max_tokens
    fit, halvings = max(MIN_TOKENS, _tokens_that_fit(model, 0.5)), 0
    while max_tokens >> halvings > fit:
        halvings += 1
    halvings = largest_of_processes(model, halvings)
    if halvings:
        max_tokens = max(1, max_tokens >> halvings)
        logger.warning(MEMORY_IS_SHORT, max_tokens)
    return max_tokens
