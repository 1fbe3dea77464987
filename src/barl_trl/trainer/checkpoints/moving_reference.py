"""Saving and loading of the reference model that `sync_ref_model` moves, for `exact_resume.py`."""

from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from ...plausibility.model_traits import is_sharded


def save_reference(model: nn.Module, folder: str, accelerator: Accelerator) -> None:
    """Save the parameters of the reference model into the folder of a checkpoint.

    Each process saves its part of a sharded model; the main process saves a model that is whole.
    """
    file = _file(model, folder, accelerator)
    if is_sharded(model) or accelerator.is_main_process:
        torch.save([_local_part(parameter).cpu() for parameter in model.parameters()], file)


def load_reference(model: nn.Module, folder: str, accelerator: Accelerator) -> None:
    """Load the parameters of the reference model from a checkpoint's folder, if they were saved."""
    file = _file(model, folder, accelerator)
    if file.exists():
        saved = torch.load(file, map_location="cpu", weights_only=True)
        for parameter, value in zip(model.parameters(), saved, strict=True):
            _local_part(parameter).copy_(value)


def _file(model: nn.Module, folder: str, accelerator: Accelerator) -> Path:
    rank, world_size = accelerator.process_index, accelerator.num_processes
    part = f"_{rank}_of_{world_size}" if is_sharded(model) else ""
    return Path(folder) / f"reference{part}.pt"


def _local_part(parameter: Any) -> Tensor:
    """Return the part of a parameter that is on this process; writing to it changes the model."""
    if hasattr(parameter, "ds_tensor"):  # ZeRO-3
        return parameter.ds_tensor.data
    return parameter.to_local().data if isinstance(parameter, DTensor) else parameter.data
