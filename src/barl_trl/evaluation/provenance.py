"""How a run was made: when, by which command, on which machine, with which kernels."""

import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import psutil
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from torch.utils import collect_env
from torch.utils._python_dispatch import TorchDispatchMode

from ..trainer.hub.redaction import redacted_command

_GIB = 2**30


def run_record(argv: Sequence[str], made_by: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of one run of `barl evaluate` in `results.json`.

    Args:
        argv: The run's command line. Secrets in it are left out of the record.
        made_by: What the backend's `describe` returned: device, dtype, attention, its kernels and
            the batch size.
    """
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": redacted_command(argv),
        **made_by,
        "hardware": hardware(),
        "python": platform.python_version(),
    }


def hardware() -> dict[str, Any]:
    """Return processor, usable cores, memory in GiB, GPUs, driver and version of CUDA or ROCm."""
    cpu_info = collect_env.get_cpu_info(collect_env.run)
    name = re.search(r"^Model name:\s*(.+)$", cpu_info, re.MULTILINE)
    is_cuda = torch.cuda.is_available()
    devices = range(torch.cuda.device_count()) if is_cuda else ()
    gpus = [torch.cuda.get_device_properties(device) for device in devices]
    driver = collect_env.get_nvidia_driver_version(collect_env.run) if is_cuda else None
    return {
        "platform": platform.platform(),
        "cpu": name[1].strip() if name else platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if platform.system() == "Linux" else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gib": round(psutil.virtual_memory().total / _GIB, 1),
        "gpus": [
            {"name": gpu.name, "memory_gib": round(gpu.total_memory / _GIB, 1)} for gpu in gpus
        ],
        "driver": driver,
        "cuda": torch.version.cuda or torch.version.hip,
    }


def attention_kernels(forward: Callable[[], Any]) -> list[str]:
    """Return the operators by which attention was really computed while a function ran.

    For `sdpa`, torch chooses one of several kernels by device, dtype, mask and shape; the kernel
    `math` is made of matrix products. The operators of `eager`, and kernels from outside of
    torch's dispatcher, leave no name.
    """
    with _Calls() as calls, _Operators() as operators:
        forward()
    if calls.are_seen and not operators.names:
        return ["scaled_dot_product_attention_math"]
    return sorted(operators.names)


class _Calls(TorchFunctionMode):
    """Note whether `scaled_dot_product_attention` was called."""

    are_seen = False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.are_seen |= func is scaled_dot_product_attention
        return func(*args, **(kwargs or {}))


class _Operators(TorchDispatchMode):
    """Note the names of fused operators that compute attention."""

    def __init__(self):
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = re.sub(r"^\w+::_?", "", func.name())
        if "attention" in name or "flash_attn" in name:
            self.names.add(name)
        return func(*args, **(kwargs or {}))
