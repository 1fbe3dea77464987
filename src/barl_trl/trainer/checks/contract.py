"""What barl-trl relies on in TRL and transformers, and the versions that it was run with.

Each process looks for the names once, before a model is loaded. That takes milliseconds.
`tests/trainer/test_inside_trl.py` tests what TRL's methods do inside, and in which order. How
transformers' `generate` hands on its cache shows only when it runs, so `plausibility/kv_cache.py`
warns once if it cannot use the cache.
"""

import warnings
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from inspect import unwrap
from itertools import takewhile
from pkgutil import resolve_name
from typing import Any

from packaging.specifiers import SpecifierSet

from ..barl_fields import barl_fields

TESTED = {"trl": ">=1.16,<1.17", "transformers": ">=5.17,<5.25"}
"""The versions that the tests run with: `make test`, `make test-lowest` and `make test-newest`."""

_NAMES = {
    "trl.GRPOTrainer": "_generate _get_per_token_logps_and_entropies _calculate_rewards "
    "_generate_and_score_completions _log_completion_extra _compute_loss log train evaluate "
    "_tokenize_prompts _generate_single_turn _prepare_inputs _get_train_sampler _save_checkpoint "
    "_save _save_rng_state _load_rng_state create_model_card _push_from_checkpoint _metrics _logs "
    "_tokenizer eos_token_ids reward_weights reward_func_names num_generations num_iterations "
    "temperature rollout_func use_vllm vllm_importance_sampling_correction "
    "vllm_importance_sampling_mode vllm_importance_sampling_clip_min "
    "vllm_importance_sampling_clip_max vllm_generation generation_kwargs generation_config _is_vlm "
    "_step _current_train_step_time _buffered_inputs ref_model",
    "trl.GRPOConfig": "max_completion_length vllm_importance_sampling_mode num_generations "
    "per_device_train_batch_size gradient_accumulation_steps generation_batch_size "
    "steps_per_generation per_device_eval_batch_size num_generations_eval num_iterations loss_type "
    "importance_sampling_level multi_objective_aggregation off_policy_mask_threshold scale_rewards "
    "use_vllm vllm_importance_sampling_correction top_p top_k min_p repetition_penalty temperature "
    "beta generation_kwargs chat_template_kwargs sync_ref_model use_adaptive_entropy",
    "trl.generation.vllm_generation.VLLMGeneration": "generation_kwargs",
    "trl.extras.profiling": "profiling_context",
    "trl.trainer.utils": "add_fused_lm_head",
    "transformers.integrations.sdpa_attention": "sdpa_attention_forward",
}
"""Class or module -> its functions, attributes and fields that barl-trl overrides, calls, reads or
sets."""


@cache
def check_versions() -> None:
    """Look for all names that barl-trl relies on in TRL and transformers, once in a process.

    A warning names installed versions that the tests do not run with.

    Raises:
        ImportError: A name is missing, or TRL has a field of the same name as one of BARL's.
    """
    for package in TESTED:
        if changes := [*_changes(package)]:
            raise changed("; ".join(changes), package)
    if not all(map(_is_tested, TESTED)):
        warnings.warn(
            f"barl-trl was not run with {_installed()}, but with {_tested()}. The names that "
            f"it relies on are there. To go back: {_way_back()}",
            stacklevel=4,
        )


def changed(what: str, package: str) -> ImportError:
    """Return the error that says what changed in a package, and which versions were run.

    Args:
        what: The change.
        package: A key of `TESTED`.
    """
    is_patched = _is_tested(package)
    way_out = f"leave out what patches {package} in this process" if is_patched else _way_back()
    return ImportError(
        f"{package} must be as barl-trl relies on it, got {_installed()}: {what}. barl-trl was "
        f"run with {_tested()}: {way_out}."
    )


def _changes(package: str) -> Iterator[str]:
    for path, names in _NAMES.items():
        if path.startswith(f"{package}."):
            present = _names(_imported(path))
            yield from (f"{path}.{name} is gone" for name in names.split() if name not in present)
    if package == "trl":
        listed, fields = _NAMES["trl.GRPOConfig"].split(), _names(_imported("trl.GRPOConfig"))
        for name in fields.intersection(one.name for one in barl_fields()).difference(listed):
            yield f"trl.GRPOConfig.{name} is a new field, which BARLConfig has, too"


def _imported(path: str) -> Any:
    """Return the object at a dotted path; None if there is none."""
    try:
        return resolve_name(path)
    except (ImportError, AttributeError):
        return None


def _names(owner: Any) -> set[str]:
    """Return the attributes of a module or class, and the names in a class's methods.

    The names in methods include the attributes that `__init__` sets. Methods of transformers'
    classes are left out.
    """
    names, classes = set(dir(owner)), owner.mro() if isinstance(owner, type) else ()
    for cls in takewhile(lambda cls: not cls.__module__.startswith("transformers."), classes):
        codes = (getattr(unwrap(value), "__code__", None) for value in vars(cls).values())
        names.update(name for code in codes if code for name in code.co_names)
    return names


def _is_tested(name: str) -> bool:
    """Return whether the tests run with the installed version of a package."""
    return SpecifierSet(TESTED[name]).contains(version(name), prereleases=True)


def _installed() -> str:
    return " and ".join(f"{name} {version(name)}" for name in TESTED)


def _tested() -> str:
    return " and ".join(f"{name}{versions}" for name, versions in TESTED.items())


def _way_back() -> str:
    return "pip install " + " ".join(f"'{name}{versions}'" for name, versions in TESTED.items())
