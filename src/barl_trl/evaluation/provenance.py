"""How a run was made: when, by which command, on which machine."""

import os
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import psutil
import torch
from torch.utils import collect_env

from ..trainer.hub import redacted_command

_GIB = 2**30


def run_record(argv: Sequence[str], made_by: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of one run of `barl evaluate` in `results.json`.

    Args:
        argv: The run's command line. Secrets in it are left out of the record.
        made_by: What the backend's `describe` returned: device, dtype, attention and batch size.
    """
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": redacted_command(argv),
        **made_by,
        "hardware": _hardware(),
        "python": platform.python_version(),
    }


def _hardware() -> dict[str, Any]:
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
