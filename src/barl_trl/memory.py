"""How much memory a forward pass that scores answers takes, and how many tokens fit; and what
training keeps in memory beside it.
"""

import logging
from typing import Any

import psutil
import torch
from peft import PeftConfig, get_peft_model
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedConfig

from .row_logps import HEAD_TILE, scales_logits
from .wrapped_models import causal_lm, compute_device, is_sharded, largest_of_processes

CPU_TOKENS = 4096
"""Longer rows outgrow a CPU's caches: 16384 tokens at once cost a fifth more time each."""

MAX_TOKENS = 65536
MIN_TOKENS = 64
"""Of a pass: with fewer, no row is short enough to be spared."""

MEMORY_SHARE = 0.25
"""Of the free memory: the allocator's fragments and the gathered parameters need the rest."""

MEMORY_IS_SHORT = "memory is short: answers are scored %d tokens at a time"

logger = logging.getLogger(__name__)


def _peaks(config: PreTrainedConfig, dtype: torch.dtype) -> list[tuple[int, int]]:
    """Return what each of two moments of a scoring pass takes: bytes in all, and per token.

    Inside an MLP: the residual, its norm and the sum; the gate, the other projection and their
    product; for mixtures of experts, of all experts that a token is sent to. And inside the head:
    the last hidden states, and the logits of some places in 32 bits, divided by the temperature and
    in exponents. A model that scales or caps logits behind its head holds those of all places that
    are read, at most as many as tokens, three times. Not counted are the scores of eager attention.
    """
    text = config.get_text_config()
    width = getattr(text, "moe_intermediate_size", None) or getattr(text, "intermediate_size", None)
    experts = getattr(text, "num_experts_per_tok", None) or 1
    states = 4 * text.hidden_size + 3 * (width or 4 * text.hidden_size) * experts
    logits = 3 * HEAD_TILE * text.vocab_size * torch.float32.itemsize
    behind = 2 * text.hidden_size + 3 * text.vocab_size * scales_logits(config)
    return [(0, states * dtype.itemsize), (logits, behind * dtype.itemsize)]


def scoring_bytes(config: PreTrainedConfig, dtype: torch.dtype, num_tokens: int) -> int:
    """Estimate the peak of a scoring pass in bytes, parameters not counted.

    Args:
        config: The model's configuration.
        dtype: What the forward computes in.
        num_tokens: Tokens of the pass.
    """
    return max(fixed + num_tokens * each for fixed, each in _peaks(config, dtype))


def tokens_within(config: PreTrainedConfig, dtype: torch.dtype, num_bytes: int) -> int:
    """Count the tokens of the largest scoring pass with a peak of `num_bytes`; at least 1."""
    return max(1, min((num_bytes - fixed) // each for fixed, each in _peaks(config, dtype)))


def tokens_that_fit(model: nn.Module, share: float) -> int:
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
    return min(most, tokens_that_fit(model, MEMORY_SHARE))


def halved_together(model: nn.Module, max_tokens: int) -> int:
    """Halve a budget, on all processes alike, until each has twice the memory for it.

    Only if parameters are sharded: then processes wait for each other in every forward, and once
    one of them has run out of memory, it is too late.

    Args:
        model: The model.
        max_tokens: This process's budget.
    """
    if not is_sharded(model):
        return max_tokens
    fit, halvings = max(MIN_TOKENS, tokens_that_fit(model, 0.5)), 0
    while max_tokens >> halvings > fit:
        halvings += 1
    halvings = largest_of_processes(model, halvings)
    if halvings:
        max_tokens = max(1, max_tokens >> halvings)
        logger.warning(MEMORY_IS_SHORT, max_tokens)
    return max_tokens


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
