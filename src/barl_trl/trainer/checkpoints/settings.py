"""The settings that a checkpoint was trained with, compared with those of a run that resumes.

`exact_resume.py` writes and compares the settings. `barl train` compares those that it knows before
it loads a model. `barl evaluate` and the experiments identify a run by the same settings.
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
from transformers.trainer import OPTIMIZER_NAME

from ...report.json_files import read_json
from ..config import BARLConfig
from .files import SETTINGS

_FREE = re.compile(
    r"(logg?ing|log|report|trackio|eval|save|hub|push|do|ddp|dataloader|include|vllm_server)_.*"
    r"|output_dir|overwrite_output_dir|resume_from_checkpoint|allow_inexact_resume|run_name|project"
    r"|prompts_per_rollout_batch|rollouts_per_optimizer_step|num_completions_to_print|deepspeed"
    r"|.*_eval(_.*)?|prediction_loss_only|load_best_.*|.*_best_model|greater_is_better|disable_tqdm"
    r"|local_rank|debug|skip_memory_metrics|vllm_group_port|scoring_max_tokens"
)
"""Names of fields that do not change the trained weights: folders, logs, evaluation. The batch
fields among them only set other fields, which are compared."""

_KIND = ("model", "adapter", "adapter_size")
"""Settings that must be equal, or the weights of a checkpoint do not fit the model."""

EXACT = (
    *("method", "data set", "seed", "data_seed", "shuffle_dataset", "num_generations"),
    *("per_device_train_batch_size", "gradient_accumulation_steps", "generation_batch_size"),
    *("steps_per_generation", "num_iterations"),
)
"""Settings that must be equal for an exact resume. They decide the order of the prompts, and how
rollouts are divided into batches."""

_OPTIMIZER = ("learning_rate", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon")
"""Settings that the saved state of the optimizer replaces."""

_OF_ONE_STATE = {"adamw_torch", "adamw_torch_fused"}
"""Optimizers that load each other's state."""

_SHAPE = ("model_type", "hidden_size", "num_hidden_layers", "vocab_size")


def settings_of(args: BARLConfig, **others: Any) -> dict[str, Any]:
    """Return the settings that change the trained weights, as JSON values, without secrets.

    Args:
        args: The settings of a run.
        **others: Settings that are no fields of `args`, such as `method`.
    """
    compared = {name: value for name, value in args.to_dict().items() if not _FREE.fullmatch(name)}
    return json.loads(json.dumps(compared | others, default=str))


def model_settings(model: Any) -> dict[str, Any]:
    """Return the architecture and sizes of a model, and the type and size of its adapter."""
    config = model.config.get_text_config().to_dict()
    shape = {name: config.get(name) for name in _SHAPE}
    settings: dict[str, Any] = {"model": shape, "adapter": None}
    if isinstance(model, PeftModel):
        adapter: Any = model.active_peft_config.to_dict()
        settings["adapter"] = adapter["peft_type"]
        settings["adapter_size"] = [adapter.get("r"), sorted(adapter.get("target_modules") or ())]
    return settings


def data_settings(dataset: Any) -> dict[str, Any]:
    """Return the number of a data set's rows, with a checksum of about 64 rows.

    Nothing is returned for a stream, whose rows are not known.
    """
    if not isinstance(dataset, Dataset):
        return {}
    sample = dataset.select(range(0, len(dataset), max(1, len(dataset) // 64)))
    checksum = hashlib.sha256(json.dumps(sample.to_list(), default=str).encode())
    return {"data set": f"{len(dataset)} rows ({checksum.hexdigest()[:8]})"}


def write_settings(checkpoint: str | Path, settings: Mapping[str, Any]) -> None:
    """Write the settings that a checkpoint was trained with into its folder."""
    text = json.dumps(settings, indent=1)
    Path(checkpoint, SETTINGS).write_text(text + "\n", encoding="utf-8")


def changed_settings(checkpoint: str | Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings that differ between a checkpoint and a run.

    Args:
        checkpoint: The folder of the checkpoint. If it has no file of settings, none differ.
        settings: The settings of the run. Those that the checkpoint lacks are not compared.

    Returns:
        Name of each setting that differs -> the text `old -> new`.
    """
    path = Path(checkpoint, SETTINGS)
    saved = read_json(path) if path.exists() else {}
    return {
        name: _difference(saved[name], value)
        for name, value in settings.items()
        if name in saved and saved[name] != value
    }


def refuse_inexact(checkpoint: str | Path, changed: Mapping[str, str], *, is_allowed: bool) -> None:
    """Refuse changed settings with which a run cannot resume from a checkpoint, or not exactly.

    Args:
        checkpoint: The folder of the checkpoint.
        changed: What [`changed_settings`] returns.
        is_allowed: Whether an inexact resume is allowed.

    Raises:
        ValueError: The weights of the checkpoint do not fit the model, or the state of its
            optimizer does not fit the optimizer; or the resume is inexact, and that is not allowed.
    """
    if kind := _listed(changed, _KIND):
        raise ValueError(
            f"the model must be of the kind that {checkpoint} has, got {kind}: take that, or leave "
            "resume_from_checkpoint out to start anew."
        )
    optimizers = changed.get("optim", "")
    is_other = not _OF_ONE_STATE.issuperset(optimizers.split(" -> "))
    if optimizers and is_other and (state := Path(checkpoint, OPTIMIZER_NAME)).exists():
        raise ValueError(
            f"optim must be that of {checkpoint}, got {optimizers}: take that, or delete {state} "
            "to start with a new optimizer."
        )
    if not is_allowed and (inexact := _listed(changed, EXACT)):
        raise ValueError(
            f"settings must be those of {checkpoint} to resume from it exactly, got {inexact}: "
            "take those, or say with --allow_inexact_resume true that it is meant."
        )


def in_words(changed: Mapping[str, str]) -> str:
    """Return all changed settings in one line, with a note of those that take no effect.

    Args:
        changed: What [`changed_settings`] returns.
    """
    stay = [name for name in _OPTIMIZER if name in changed]
    note = f" {' and '.join(stay)} stay{'s' * (len(stay) == 1)} the checkpoint's." if stay else ""
    return f"{_listed(changed, changed)}.{note}"


def _listed(changed: Mapping[str, str], names: Iterable[str]) -> str:
    return ", ".join(f"{name} {changed[name]}" for name in names if name in changed)


def _difference(old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        names = [name for name in old | new if old.get(name) != new.get(name)]
        old, new = ({name: part.get(name) for name in names} for part in (old, new))
    return " -> ".join(textwrap.shorten(str(value), 80) for value in (old, new))
