"""Which weights stand behind a model's name, which code trained them, and how a run was made."""

import os
import platform
import re
import shlex
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers.utils import cached_file
from transformers.utils.hub import extract_commit_hash

from ..trainer.redaction import redacted
from .templates import PROMPT

TRAINED_BY = "barl_trained_by"
"""Key of `tokenizer_config.json` under which training notes the version of its code."""


def checkpoint_id(
    model: str, revision: str | None = None, *, token: str | bool | None = None
) -> str | None:
    """Return what tells a checkpoint from others of the same name.

    It is the commit on the Hub; for a local folder, a checksum of the last 16 MiB of each file of
    weights, as 8 hex digits.
    """
    folder = Path(model)
    if not folder.is_dir():
        file = cached_file(model, "tokenizer_config.json", revision=revision, token=token)
        return extract_commit_hash(file, None)
    checksum = 0
    for path in sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")]):
        with path.open("rb") as weights:
            weights.seek(max(0, path.stat().st_size - 2**24))
            checksum = zlib.crc32(weights.read(), checksum)
    return f"{checksum:08x}"


def record_training(
    tokenizer: Any,
    system_prompt: str | None,
    prompt_template: str | None,
    chat_template_kwargs: Mapping[str, Any] | None,
) -> None:
    """Note in a tokenizer how a model was trained; the notes are saved with the tokenizer.

    They say how training wrote prompts, without secrets, and with which version of this package.
    """
    tokenizer.init_kwargs[PROMPT] = {
        "system_prompt": None if prompt_template else system_prompt,
        "prompt_template": prompt_template,
        "chat_template_kwargs": redacted(chat_template_kwargs or {}),
    }
    tokenizer.init_kwargs[TRAINED_BY] = {"barl-trl": version("barl-trl")}


def run_record(argv: Sequence[str], made_by: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a run in `results.json`: its command line without secrets, the machine.

    `made_by` is what the backend's `describe` returned.
    """
    cpus = Path("/proc/cpuinfo")
    text = cpus.read_text(encoding="utf-8", errors="replace") if cpus.exists() else ""
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    gpus = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
    hardware = {
        "platform": platform.platform(),
        "cpu": name[1].strip() if name else platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if platform.system() == "Linux" else os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "gpus": [{"name": g.name, "memory_gib": round(g.total_memory / 2**30, 1)} for g in gpus],
    }
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": redacted(shlex.join(argv)),
        **made_by,
        "hardware": hardware,
        "python": platform.python_version(),
    }
