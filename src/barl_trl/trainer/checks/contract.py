"""What barl-trl relies on in TRL and transformers, and the versions that it was run with.

Each process looks for the names and parameters once, before a model is loaded. That takes
milliseconds. `tests/trainer/test_inside_trl.py` tests what TRL's methods do inside, and in which
order.
"""

import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import version
from inspect import Parameter, signature, unwrap
from itertools import takewhile
from pkgutil import resolve_name
from typing import Any

from packaging.specifiers import SpecifierSet

from ..barl_fields import barl_fields

TESTED = {"trl": ">=1.16,<1.17", "transformers": ">=5.17,<5.25"}
"""The versions that the tests run with: `make test`, `make test-lowest` and `make test-newest`."""

_PARAMETERS = {
    "trl.GRPOTrainer": {
        "__init__": "model reward_funcs args train_dataset eval_dataset processing_class ... "
        "quantization_config peft_config tools rollout_func environment_factory",
        "_generate": "prompts",
        "_get_per_token_logps_and_entropies": "model input_ids attention_mask logits_to_keep ...",
        "_calculate_rewards": "inputs prompts completions completion_ids_list",
        "_generate_and_score_completions": "inputs",
        "_log_completion_extra": "column values",
        "_compute_loss": "model inputs",
        "log": "logs start_time",
        "train": "resume_from_checkpoint ...",
        "evaluate": "eval_dataset ignore_keys metric_key_prefix",
        "_tokenize_prompts": "prompts ...",
        "_generate_single_turn": "prompt_ids images multimodal_fields num_generations ...",
        "_prepare_inputs": "generation_batch",
        "_get_train_sampler": "dataset",
        "_save_checkpoint": "model trial",
        "_save": "output_dir state_dict",
        "_save_rng_state": "output_dir",
        "_load_rng_state": "checkpoint",
        "_run_epoch": "model epoch train_dataloader steps_in_epoch num_update_steps_per_epoch "
        "trial ignore_keys_for_eval start_time resume_from_checkpoint epochs_trained "
        "steps_trained_in_current_epoch",
        "create_model_card": "model_name dataset_name tags",
        "_push_from_checkpoint": "checkpoint_folder",
    },
    "trl.extras.profiling": {"profiling_context": "trainer name"},
    "trl.trainer.utils": {"add_fused_lm_head": "model ... outputs"},
    "transformers.integrations.sdpa_attention": {
        "sdpa_attention_forward": "module query key value attention_mask ... is_causal"
    },
}
"""Class or module -> functions that are overridden or called -> their parameters without `self`.

`...` stands for any further parameters, which must have defaults. The parameters after `...` must
be among them.
"""

_NAMES = {
    "trl.GRPOTrainer": "_metrics _logs log_completions num_completions_to_print _tokenizer "
    "eos_token_ids reward_weights reward_funcs reward_func_names num_generations num_iterations "
    "temperature rollout_func use_vllm vllm_importance_sampling_correction "
    "vllm_importance_sampling_mode "
    "vllm_importance_sampling_clip_min vllm_importance_sampling_clip_max vllm_generation "
    "generation_kwargs generation_config _is_vlm _step _current_train_step_time _buffered_inputs "
    "ref_model tools environments chat_template max_tool_calling_iterations",
    "trl.GRPOConfig": "max_completion_length vllm_importance_sampling_mode num_generations "
    "per_device_train_batch_size gradient_accumulation_steps generation_batch_size "
    "steps_per_generation per_device_eval_batch_size num_generations_eval num_iterations loss_type "
    "importance_sampling_level multi_objective_aggregation off_policy_mask_threshold scale_rewards "
    "use_vllm vllm_importance_sampling_correction top_p top_k min_p repetition_penalty temperature "
    "beta generation_kwargs chat_template_kwargs num_completions_to_print sync_ref_model "
    "use_adaptive_entropy vllm_mode max_tool_calling_iterations model_init_kwargs",
    "trl.generation.vllm_generation.VLLMGeneration": "generation_kwargs llm",
}
"""Class -> its attributes and fields that barl-trl reads or sets."""


@cache
def check_versions() -> None:
    """Look for all names that barl-trl relies on in TRL and transformers, once in a process.

    A warning names installed versions that the tests do not run with.

    Raises:
        ImportError: A name is missing, or a function takes other parameters.
    """
    for package in TESTED:
        changes = [*_changed_functions(package), *(_changed_names() if package == "trl" else ())]
        if changes:
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


def _changed_functions(package: str) -> Iterator[str]:
    for owner, functions in _PARAMETERS.items():
        for name, expected in functions.items() if owner.startswith(f"{package}.") else ():
            function = _imported(f"{owner}.{name}")
            if function is None:
                yield f"{owner}.{name} is gone"
                continue
            parameters = [p for p in signature(function).parameters.values() if p.name != "self"]
            if not _fit(parameters, expected):
                names = ", ".join(parameter.name for parameter in parameters)
                yield f"{owner}.{name} takes ({names}), not ({', '.join(expected.split())})"


def _changed_names() -> Iterator[str]:
    for path, names in _NAMES.items():
        present = _names(_imported(path) or object)
        yield from (f"{path}.{name} is gone" for name in names.split() if name not in present)
    listed, fields = _NAMES["trl.GRPOConfig"].split(), _names(_imported("trl.GRPOConfig"))
    for name in (field.name for field in barl_fields()):
        if name in fields and name not in listed:
            yield f"trl.GRPOConfig.{name} is a new field, which BARLConfig has, too"


def _imported(path: str) -> Any:
    """Return the object at a dotted path; None if there is none."""
    try:
        return resolve_name(path)
    except (ImportError, AttributeError):
        return None


def _fit(parameters: Sequence[Parameter], expected: str) -> bool:
    """Return whether parameters are as a text of `_PARAMETERS` expects them."""
    leading, more, named = (part.split() for part in expected.partition("..."))
    names, others = [parameter.name for parameter in parameters], parameters[len(leading) :]
    is_free = all(
        parameter.default is not Parameter.empty
        or parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        for parameter in others
    )
    fit = is_free and set(named) <= set(names[len(leading) :]) if more else not others
    return names[: len(leading)] == leading and fit


def _names(owner: Any) -> set[str]:
    """Return the attributes of a class, and the names in methods of classes outside transformers.

    The names in methods include the attributes that `__init__` sets.
    """
    names = set(dir(owner))
    for cls in takewhile(lambda cls: not cls.__module__.startswith("transformers."), owner.mro()):
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
