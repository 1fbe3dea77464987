"""What training keeps in memory: parameters, gradients, states of the optimizer."""

from typing import Any

import torch
from peft import PeftConfig, get_peft_model
from transformers import AutoModelForCausalLM, PreTrainedConfig


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
