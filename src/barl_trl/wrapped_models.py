"""The model inside the wrappers of PEFT, DDP, FSDP, DeepSpeed, and what these ask of its user."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from transformers import PreTrainedModel


def causal_lm(model: nn.Module) -> PreTrainedModel:
    """Find the transformers model inside any wrappers."""
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            return module
    raise ValueError(
        f"model must be or wrap a transformers model, got {type(model).__name__}: pass a causal LM"
    )


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout and gradient checkpointing off, then put each module back into its mode."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def is_sharded(model: nn.Module) -> bool:
    """Say whether parameters are gathered for every forward (FSDP, ZeRO-3)."""
    fsdp = any(isinstance(m, FSDPModule | FullyShardedDataParallel) for m in model.modules())
    return fsdp or any(hasattr(parameter, "ds_id") for parameter in model.parameters())


def gather_head_with_model(model: nn.Module) -> None:
    """Have ZeRO-3 gather the LM head whenever the model runs, forward or backward.

    DeepSpeed learns the order of the modules from the pass that scores, where the head is called.
    TRL's loss reads the head's weight instead: its backward would find it partitioned, and fail.
    """
    import deepspeed  # pyright: ignore[reportMissingImports]  # the extra of that name

    base = causal_lm(model)
    head = base.get_output_embeddings()
    for parameter in head.parameters() if head is not None else ():
        deepspeed.zero.register_external_parameter(base, parameter)


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
