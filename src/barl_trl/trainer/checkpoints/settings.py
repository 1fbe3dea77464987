"""What a checkpoint was trained with, and what differs where a run goes on from it.

`exact_resume.py` writes and compares it; `barl train` compares what is known before a model is
loaded; `barl evaluate` and `barl analyze credit` name a run by the same settings.
"""

import hashlib
import json
import re
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from datasets import Dataset
from peft import PeftModel

from ...report.json_files import read_json
from ..barl_config import BARLConfig
from .files import SETTINGS

_FREE = re.compile(
    r"(logg?ing|log|report|trackio|eval|save|hub|push|do|ddp|dataloader|include|vllm_server)_.*"
    r"|output_dir|overwrite_output_dir|resume_from_checkpoint|allow_inexact_resume|run_name|project"
    r"|prompts_per_rollout_batch|rollouts_per_optimizer_step|num_completions_to_print|deepspeed"
    r"|.*_eval(_.*)?|prediction_loss_only|load_best_.*|.*_best_model|greater_is_better|disable_tqdm"
    r"|local_rank|debug|skip_memory_metrics|vllm_group_port|scoring_max_tokens"
)
"""Fields that do not change what is trained: places, logs, evaluation. Those of batches that are
here set others."""

_KIND = ("model", "adapter", "adapter_size")
"""Without these the weights of a checkpoint do not fit."""

EXACT = (
    *("method", "data set", "seed", "data_seed", "shuffle_dataset", "num_generations"),
    *("per_device_train_batch_size", "gradient_accumulation_steps", "generation_batch_size"),
    *("steps_per_generation", "num_iterations"),
)
"""What an exact resume relies on: the order of prompts, and how rollouts are divided."""

_OPTIMIZER = ("learning_rate", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon")
"""What the optimizer's saved state has the last word on."""

_SHAPE = ("model_type", "hidden_size", "num_hidden_layers", "vocab_size")


def settings_of(args: BARLConfig, **others: Any) -> dict[str, Any]:
    """Return settings as JSON has them, without secrets and without places, logs and evaluation.

    Args:
        args: The settings of a run.
        **others: What they do not say, such as `method`.
    """
    told = {name: value for name, value in args.to_dict().items() if not _FREE.fullmatch(name)}
    return json.loads(json.dumps(told | others, default=str))


def model_settings(model: Any) -> dict[str, Any]:
    """Return the kind of a model and of its adapter."""
    config = model.config.get_text_config().to_dict()
    told: dict[str, Any] = {"model": {name: config.get(name) for name in _SHAPE}, "adapter": None}
    if isinstance(model, PeftModel):
        adapter: Any = model.active_peft_config.to_dict()
        told["adapter"] = adapter["peft_type"]
        told["adapter_size"] = [adapter.get("r"), sorted(adapter.get("target_modules") or ())]
    return told


def data_settings(dataset: Any) -> dict[str, Any]:
    """Return the number of a data set's rows, with a checksum of some; of a stream nothing."""
    if not isinstance(dataset, Dataset):
        return {}
    rows = dataset.select(range(0, len(dataset), max(1, len(dataset) // 64)))
    checksum = hashlib.sha256(json.dumps(rows.to_list(), default=str).encode())
    return {"data set": f"{len(dataset)} rows ({checksum.hexdigest()[:8]})"}


def write_settings(checkpoint: str | Path, settings: Mapping[str, Any]) -> None:
    """Keep in a checkpoint what it was trained with."""
    text = json.dumps(settings, indent=1)
    Path(checkpoint, SETTINGS).write_text(text + "\n", encoding="utf-8")


def changed_settings(checkpoint: str | Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run changes in the settings of a checkpoint.

    Args:
        checkpoint: Its folder. One that does not say its settings has no others.
        settings: Of the run; those that only one of them has are left out.

    Returns:
        `old -> new` by name.
    """
    path = Path(checkpoint, SETTINGS)
    saved = read_json(path) if path.exists() else {}
    return {
        name: f"{_short(saved[name])} -> {_short(value)}"
        for name, value in settings.items()
        if name in saved and saved[name] != value
    }


def refuse_inexact(checkpoint: str | Path, changed: Mapping[str, str], *, is_allowed: bool) -> None:
    """Refuse changes with which a run cannot go on from a checkpoint, or not exactly.

    Args:
        checkpoint: Its folder.
        changed: As [`changed_settings`] returns it.
        is_allowed: Whether it need not be exact.

    Raises:
        ValueError: There are such changes.
    """
    if kind := _listed(changed, _KIND):
        raise ValueError(
            f"the model must be of the kind that {checkpoint} has, got {kind}: take that, or leave "
            "resume_from_checkpoint out to start anew."
        )
    if not is_allowed and (inexact := _listed(changed, EXACT)):
        raise ValueError(
            f"settings must be those of {checkpoint} to resume from it exactly, got {inexact}: "
            "take those, or say with --allow_inexact_resume true that it is meant."
        )


def in_words(changed: Mapping[str, str]) -> str:
    """Return all changes in one line, and which of them change nothing."""
    stay = [name for name in _OPTIMIZER if name in changed]
    note = f" {' and '.join(stay)} stay{'s' * (len(stay) == 1)} the checkpoint's." if stay else ""
    return f"{_listed(changed, changed)}.{note}"


def _listed(changed: Mapping[str, str], names: Iterable[str]) -> str:
    return ", ".join(f"{name} {changed[name]}" for name in names if name in changed)


def _short(value: Any) -> str:
    return textwrap.shorten(str(value), 80)
