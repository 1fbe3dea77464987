"""What barl-trl relies on in TRL and transformers, and the versions that it was run with."""

import warnings
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from inspect import Parameter, signature, unwrap
from itertools import takewhile
from pkgutil import resolve_name
from typing import Any

from packaging.specifiers import SpecifierSet

TESTED = {"trl": ">=1.16,<1.17", "transformers": ">=5.17,<5.25"}
"""The versions that the tests run with: `make test`, `make test-lowest` and `make test-newest`."""

_PARAMETERS = {
    "trl.GRPOTrainer": {
        "__init__": "model reward_funcs args train_dataset eval_dataset processing_class ...",
        "_generate": "prompts",
        "_get_tool_suffix_ids": "tool_messages",
        "_tokenize_prompts": "prompts",
        "_generate_single_turn": "prompt_ids images multimodal_fields num_generations ...",
        "_get_per_token_logps_and_entropies": "model input_ids attention_mask logits_to_keep ...",
        "_calculate_rewards": "inputs prompts completions completion_ids_list",
        "_generate_and_score_completions": "inputs",
        "_compute_loss": "model inputs",
        "train": "resume_from_checkpoint ...",
        "evaluate": "eval_dataset ignore_keys metric_key_prefix",
        "_save_checkpoint": "model trial",
        "create_model_card": "model_name dataset_name tags",
    },
    "trl.extras.profiling": {"profiling_context": "trainer name"},
    "transformers.integrations.sdpa_attention": {
        "sdpa_attention_forward": "module query key value attention_mask ..."
    },
}
"""Class or module -> functions that are overridden or called -> their parameters without `self`.

`...` stands for any further parameters, which must have defaults.
"""

_NAMES = {
    "trl.GRPOTrainer": "_metrics _logs _pending_extra_logs _tokenizer eos_token_ids reward_weights "
    "reward_funcs reward_func_names num_generations num_generations_eval num_iterations "
    "temperature rollout_func use_vllm vllm_importance_sampling_correction "
    "vllm_importance_sampling_mode vllm_generation generation_kwargs generation_config _is_vlm "
    "_step _current_train_step_time _buffered_inputs ref_model tools environments chat_template "
    "max_tool_calling_iterations chat_template_kwargs _sync_tool_dicts _async_tool_dicts "
    "async_loop environment_factories max_completion_length reward_processing_classes vllm_mode "
    "_run_epoch _get_output_dir _tag_names _name _paper",
    "trl.GRPOConfig": "max_completion_length vllm_importance_sampling_mode num_generations "
    "max_tool_calling_iterations per_device_train_batch_size gradient_accumulation_steps "
    "generation_batch_size steps_per_generation num_iterations loss_type importance_sampling_level "
    "multi_objective_aggregation off_policy_mask_threshold scale_rewards use_vllm "
    "vllm_importance_sampling_correction top_p top_k min_p repetition_penalty temperature beta "
    "generation_kwargs chat_template_kwargs vllm_mode sync_ref_model trust_remote_code",
    "trl.generation.vllm_generation.VLLMGeneration": "generation_kwargs",
}
"""Class -> its attributes and fields that barl-trl reads or sets."""


@cache
def check_versions(own_fields: Collection[str] = ()) -> None:
    """Look for all names that barl-trl relies on in TRL and transformers, once in a process.

    A warning names installed versions that the tests do not run with. TRL must have no other fields
    of the names of [`BARLConfig`]'s `own_fields`.

    Raises:
        ImportError: A name is missing, or a function takes other parameters.
    """
    for package in TESTED:
        if changes := [*_changes(package, own_fields)]:
            raise changed("; ".join(changes), package)
    installed, tested, way_back = _versions()
    if not all(map(_is_tested, TESTED)):
        warnings.warn(
            f"barl-trl was not run with {installed}, but with {tested}. The names that it relies "
            f"on are there. To go back: {way_back}",
            stacklevel=4,
        )


def changed(what: str, package: str) -> ImportError:
    """Return the error that says what changed in a package, and which versions were run."""
    installed, tested, way_back = _versions()
    if _is_tested(package):
        way_back = f"leave out what patches {package} in this process"
    return ImportError(
        f"{package} must be as barl-trl relies on it, got {installed}: {what}. barl-trl was run "
        f"with {tested}: {way_back}."
    )


def _changes(package: str, own_fields: Collection[str]) -> Iterator[str]:
    for owner, functions in _PARAMETERS.items():
        for name, expected in functions.items() if owner.startswith(f"{package}.") else ():
            if (function := _imported(f"{owner}.{name}")) is None:
                yield f"{owner}.{name} is gone"
            elif not _fit([*signature(function).parameters.values()], expected):
                yield f"{owner}.{name} takes {signature(function)}, not ({expected})"
    for path, names in _NAMES.items() if package == "trl" else ():
        present = _names(_imported(path) or object)
        yield from (f"{path}.{name} is gone" for name in names.split() if name not in present)
        if path == "trl.GRPOConfig":
            new = sorted(present.intersection(own_fields).difference(names.split()))
            yield from (f"{path}.{name} is a new field, which BARLConfig has, too" for name in new)


def _imported(path: str) -> Any:
    """Return the object at a dotted path; None if there is none."""
    try:
        return resolve_name(path)
    except (ImportError, AttributeError):
        return None


def _fit(parameters: Sequence[Parameter], expected: str) -> bool:
    """Return whether parameters are as a text of `_PARAMETERS` expects them."""
    leading, may_go_on = expected.removesuffix("...").split(), expected.endswith("...")
    parameters = [parameter for parameter in parameters if parameter.name != "self"]
    names, others = [p.name for p in parameters[: len(leading)]], parameters[len(leading) :]
    variable = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    is_free = all(p.default is not Parameter.empty or p.kind in variable for p in others)
    return names == leading and (is_free if may_go_on else not others)


def _names(owner: Any) -> set[str]:
    """Return a class's attributes, and the names in its methods, also those that are set there."""
    names = set(dir(owner))
    for cls in takewhile(lambda cls: not cls.__module__.startswith("transformers."), owner.mro()):
        codes = (getattr(unwrap(value), "__code__", None) for value in vars(cls).values())
        names.update(name for code in codes if code for name in code.co_names)
    return names


def _is_tested(name: str) -> bool:
    return SpecifierSet(TESTED[name]).contains(version(name), prereleases=True)


def _versions() -> tuple[str, str, str]:
    """Return what is installed, what the tests run with, and how to go back to that."""
    installed = " and ".join(f"{name} {version(name)}" for name in TESTED)
    tested = [f"{name}{versions}" for name, versions in TESTED.items()]
    return installed, " and ".join(tested), f"pip install {' '.join(map(repr, tested))}"
