"""Mistakes in a trainer's arguments, found before a model is loaded."""

from collections import Counter
from functools import partial
from typing import Any

from peft import PeftModel
from torch import nn
from transformers import PreTrainedTokenizerBase

from ...rewards import resolve_rewards
from ...steps import step_ends_of
from ..barl_config import BARLConfig
from ..rollouts.turns import completion_ends
from .datasets import check_datasets, refuse_unusable_tokenizer
from .environment import refuse_missing_packages
from .settings import CREDIT_RULES, refuse_broken


def check_trainer_arguments(
    model, args, reward_funcs, train_dataset, eval_dataset, kwargs: dict[str, Any]
) -> None:
    """Refuse arguments that [`BARLTrainer`] cannot honour.

    They have the trainer's names; `kwargs` has the others, by name.

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
    args.warn_of_weights(have_fixed_steps=kwargs.get("step_segmenter") is None)
    for name in ("tools", "environment_factory"):
        if kwargs.get(name):
            raise ValueError(
                f"{name} must be None, got {kwargs[name]!r}: a chain of thought is one model's "
                "text here."
            )
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
    if not reward_funcs:
        raise ValueError(
            "reward_funcs must hold at least one function, got none: try "
            "barl_trl.rewards.accuracy_reward."
        )
    tokenizer = kwargs.get("processing_class")
    rewards = check_shared_arguments(args, reward_funcs, train_dataset, tokenizer)
    if train_dataset is None:
        return  # TRL raises a clear error
    check_datasets(args, train_dataset, eval_dataset, rewards, kwargs)
    if isinstance(tokenizer, PreTrainedTokenizerBase):
        completion_ends(args, tokenizer, train_dataset, [tokenizer.eos_token_id])


def check_shared_arguments(
    args: BARLConfig,
    reward_funcs: Any = None,
    train_dataset: Any = None,
    processing_class: Any = None,
    **_: Any,
) -> list[Any]:
    """Refuse arguments that neither [`BARLTrainer`] nor TRL's own trainer can honour.

    They have the trainer's names; the trainer's other arguments are not checked.

    Returns:
        The reward functions, with names resolved.

    Raises:
        ImportError: `args.use_vllm` is set without vLLM.
        ValueError: Any other argument breaks a rule.
    """
    refuse_missing_packages(args)
    length: Any = args.max_completion_length
    rewards = resolve_rewards(reward_funcs, args.extraction, max_completion_length=length)
    rewards = rewards if isinstance(rewards, list) else [rewards]
    for name, number in Counter(map(_logged_as, rewards)).items():
        if name is not None and number > 1:
            raise ValueError(
                f"reward_funcs must have names of their own, got {name!r} {number} times: their "
                "metrics would be mixed up. Define each with `def` and another name."
            )
    refuse_unusable_tokenizer(processing_class, train_dataset)
    return rewards


def _logged_as(reward: Any) -> str | None:
    """Return the name of a reward in TRL's log; None for a text, the Hub id of a reward model."""
    if isinstance(reward, nn.Module):
        model_config: Any = reward.config
        return model_config._name_or_path.split("/")[-1]
    while isinstance(reward, partial):
        reward = reward.func
    return getattr(reward, "__name__", type(reward).__name__) if callable(reward) else None
