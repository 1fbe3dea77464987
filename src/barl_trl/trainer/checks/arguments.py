"""Mistakes in a trainer's arguments, found before a model is loaded."""

import re
from collections import Counter
from difflib import get_close_matches
from functools import partial
from typing import Any

import torch
from peft import PeftModel
from peft.tuners.tuners_utils import check_target_module_exists
from torch import nn
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedTokenizerBase,
)

from ...rewards import AccuracyReward, resolve_rewards
from ...steps import step_ends_of
from ..barl_config import BARLConfig
from ..rollouts.evidence import TaskFunctions
from ..rollouts.turns import completion_ends
from .agents import check_agents
from .callables import check_task_functions
from .datasets import check_datasets, refuse_unusable_tokenizer, signature_of
from .environment import refuse_missing_packages
from .settings import CREDIT_RULES, refuse_broken

_FROM_CONFIG = ("revision", "trust_remote_code")


def check_trainer_arguments(
    model, args, reward_funcs, train_dataset, eval_dataset, kwargs: dict[str, Any]
) -> None:
    """Refuse arguments that [`BARLTrainer`] cannot honour.

    Args:
        model: The trainer's `model`.
        args: The trainer's `args`.
        reward_funcs: The trainer's `reward_funcs`.
        train_dataset: The trainer's `train_dataset`.
        eval_dataset: The trainer's `eval_dataset`.
        kwargs: The trainer's other arguments, by name.

    Raises:
        ImportError: `args.use_vllm` is set without vLLM.
        TypeError: `args` is not a [`BARLConfig`], or a data set has another type.
        ValueError: Any other argument breaks a rule.
    """
    if not isinstance(args, BARLConfig):
        raise TypeError(
            f"args must be a BARLConfig, got {type(args).__name__}: BARLConfig takes all of its "
            "fields."
        )
    refuse_broken(CREDIT_RULES, args)
    # with several turns, each is a step
    others = ("step_segmenter", "tools", "environment_factory", "rollout_func")
    have_fixed_steps = not any(kwargs.get(name) for name in others)
    args.warn_of_weights(have_fixed_steps=have_fixed_steps)
    if kwargs.get("answer_extractor") and args.extraction != "boxed":
        raise ValueError(
            f"extraction must be left at 'boxed' with an answer_extractor, got "
            f"{args.extraction!r}: what that reads is for it to say."
        )
    if segmenter := kwargs.get("step_segmenter"):
        step_ends_of([0, 1, 2, 3], segmenter)  # a mistake shows before a model is loaded
    adapters: Any = [kwargs.get("peft_config")]
    if isinstance(model, PeftModel):
        adapters = model.peft_config.values()
    kinds = {adapter.peft_type.value for adapter in adapters if adapter is not None}
    if args.gradient_checkpointing and kinds & {"PREFIX_TUNING", "CARTRIDGE"}:
        raise ValueError(
            f"gradient_checkpointing must be False with {kinds.pop()}, got True: it drops the "
            "cache that holds the learned prefix."
        )
    if not reward_funcs and not kwargs.get("environment_factory"):
        raise ValueError(
            "reward_funcs must hold at least one function, got none: try "
            "barl_trl.rewards.accuracy_reward."
        )
    tokenizer = kwargs.get("processing_class")
    rewards = check_shared_arguments(
        args, reward_funcs, train_dataset, eval_dataset, model=model, **kwargs
    )
    if train_dataset is None:
        return  # TRL raises a clear error
    check_datasets(args, train_dataset, eval_dataset, rewards, kwargs)
    functions = TaskFunctions(*(kwargs.get(name) for name in TaskFunctions._fields))
    check_task_functions(args, functions, rewards, train_dataset, kwargs)
    if isinstance(tokenizer, PreTrainedTokenizerBase):
        completion_ends(args, tokenizer, train_dataset, [tokenizer.eos_token_id])


def check_shared_arguments(
    args: BARLConfig,
    reward_funcs: Any = None,
    train_dataset: Any = None,
    eval_dataset: Any = None,
    processing_class: Any = None,
    **kwargs: Any,
) -> list[Any]:
    """Refuse arguments that neither [`BARLTrainer`] nor TRL's own trainer can honour.

    Args:
        args: The trainer's `args`.
        reward_funcs: The trainer's `reward_funcs`.
        train_dataset: The trainer's `train_dataset`.
        eval_dataset: The trainer's `eval_dataset`.
        processing_class: The trainer's `processing_class`.
        **kwargs: The trainer's other arguments, by name.

    Returns:
        The reward functions, with names resolved.

    Raises:
        ImportError: `args.use_vllm` is set without vLLM.
        ValueError: Any other argument breaks a rule.
    """
    refuse_missing_packages(args)
    init_kwargs: Any = args.model_init_kwargs or {}
    refuse_missing_modules(kwargs.get("model"), kwargs.get("peft_config"), init_kwargs)
    check_agents(args, train_dataset, kwargs)
    length: Any = args.max_completion_length
    rewards = resolve_rewards(reward_funcs or [], args.extraction, max_completion_length=length)
    rewards = rewards if isinstance(rewards, list) else [rewards]
    for name, number in Counter(map(_logged_as, rewards)).items():
        if name is not None and number > 1:
            raise ValueError(
                f"reward_funcs must have names of their own, got {name!r} {number} times: their "
                "metrics would be mixed up. Define each with `def` and another name."
            )
    refuse_unusable_tokenizer(processing_class, train_dataset)
    if isinstance(eval_dataset, dict) and args.eval_strategy != "no":
        _refuse_metric_of_no_set(args.metric_for_best_model or "", [*eval_dataset], rewards)
    return rewards


def _refuse_metric_of_no_set(metric: str, sets: list[str], rewards: list[Any]) -> None:
    """Refuse to choose the best model by the reward of an evaluation set that does not exist."""
    signatures = [signature_of(r) for r in rewards if not isinstance(r, AccuracyReward)]
    if any(signature and "log_metric" in signature.parameters for signature in signatures):
        return  # a reward function that takes `log_metric` may log any name
    reward_of_set = re.fullmatch(r"(.+)_(reward|reward_std)", metric.removeprefix("eval_"))
    if reward_of_set is not None and reward_of_set[1] not in sets:
        raise ValueError(
            f"metric_for_best_model must be of an evaluation set, got {metric!r}, where there are "
            f"{sets}: name one of these in place of {reward_of_set[1]!r}."
        )


def _logged_as(reward: Any) -> str | None:
    """Return the name of a reward in TRL's log; None for a text, the Hub id of a reward model."""
    if isinstance(reward, nn.Module):
        model_config: Any = reward.config
        return model_config._name_or_path.split("/")[-1]
    while isinstance(reward, partial):
        reward = reward.func
    return getattr(reward, "__name__", type(reward).__name__) if callable(reward) else None


def refuse_missing_modules(model: Any, peft_config: Any, init_kwargs: dict[str, Any]) -> None:
    """Refuse target modules of which a model has none; peft would, after the weights are loaded.

    Args:
        model: The trainer's `model`. Only a path or Hub id is looked at: the model is built without
            its weights.
        peft_config: The trainer's `peft_config`. To peft, its `target_modules` are names if they
            are a list, and a regular expression if they are a text; TRL's `ModelConfig` makes a
            list of one name a text.
        init_kwargs: The arguments with which the model will be loaded.

    Raises:
        ValueError: The model has no module of these names.
    """
    targets = getattr(peft_config, "target_modules", None)
    if not isinstance(model, str) or not targets or targets == "all-linear":
        return
    config = AutoConfig.from_pretrained(
        model, **{name: init_kwargs[name] for name in _FROM_CONFIG if init_kwargs.get(name)}
    )
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        return
    with torch.device("meta"):
        modules: Any = AutoModelForCausalLM.from_config(config).named_modules()
    places = {name: module for name, module in modules if name}
    if any(check_target_module_exists(peft_config, place) for place in places):
        return
    names = [targets] if isinstance(targets, str) else sorted(targets)
    linear = {place.split(".")[-1] for place, m in places.items() if isinstance(m, nn.Linear)}
    near = [match for one in names for match in get_close_matches(one, linear, n=1)]
    hint = f"did you mean {near[0]!r}?" if near else "'all-linear' takes all of them."
    if targets in linear:
        hint = rf"one name alone is a regular expression of whole paths, here '.*\.{targets}'."
    raise ValueError(
        "lora_target_modules (target_modules of peft_config) must name modules of the model, got "
        f"{', '.join(names)!r} where there are {', '.join(sorted(linear))}: {hint}"
    )
