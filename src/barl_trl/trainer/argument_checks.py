"""Mistakes in a trainer's arguments, found before a model is loaded."""

from collections import Counter
from functools import partial
from typing import Any

from peft import PeftModel
from transformers import PreTrainedTokenizerBase

from ..rewards import AccuracyReward, resolve_rewards
from .barl_config import BARLConfig
from .barl_fields import refuse_unused_settings
from .callables import try_step_segmenter
from .dataset_checks import check_prompts, check_rewards, check_truths, refuse_unusable_tokenizer
from .environment_checks import refuse_missing_vllm
from .turns import completion_ends


def check_trainer_arguments(
    model, args, reward_funcs, train_dataset, eval_dataset, kwargs: dict[str, Any]
) -> None:
    """Refuse what [`BARLTrainer`] cannot do.

    Args:
        model: Its adapters, if it has some, and those of `peft_config` must be trainable.
        args: Must be a [`BARLConfig`].
        reward_funcs: Must not be empty.
        train_dataset: Must be text with a column of true answers.
        eval_dataset: Must be text with what the rewards take, if there is one, or a dict of such.
        kwargs: The trainer's other arguments: no tools and no environments, and no
            `answer_extractor` where `args` say what is read.

    Raises:
        ImportError: `args.use_vllm` without vLLM.
        TypeError: `args` is another configuration, or a data set is none.
        ValueError: Any other of these rules is broken.
    """
    if not isinstance(args, BARLConfig):
        raise TypeError(
            f"args must be a BARLConfig, got {type(args).__name__}: BARLConfig takes all of its "
            "fields."
        )
    refuse_unused_settings(args)
    args.warn_of_hidden_outcome()
    if args.use_vllm:
        refuse_missing_vllm("use_vllm must be False", True)
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
    try_step_segmenter(kwargs.get("step_segmenter"))
    if kwargs.get("step_segmenter") is None:
        args.warn_of_whole_completions()
    _refuse_prefixes_without_cache(args, model, kwargs.get("peft_config"))
    if not reward_funcs:
        raise ValueError(
            "reward_funcs must hold at least one function, got none: try "
            "barl_trl.rewards.accuracy_reward."
        )
    length: Any = args.max_completion_length
    rewards = resolve_rewards(reward_funcs, args.extraction, max_completion_length=length)
    rewards = rewards if isinstance(rewards, list) else [rewards]
    _refuse_equal_names(rewards)
    if train_dataset is None:
        return  # TRL's error is clear
    evaluated = eval_dataset if isinstance(eval_dataset, dict) else {"": eval_dataset}
    datasets = {"train_dataset": train_dataset} | {
        f"eval_dataset[{name!r}]" if name else "eval_dataset": dataset
        for name, dataset in evaluated.items()
        if dataset is not None
    }
    graders = [reward.grader.name for reward in rewards if isinstance(reward, AccuracyReward)]
    if not graders and kwargs.get("answer_equivalence") is None:
        graders = ["math_verify"]
    tokenizer = kwargs.get("processing_class")
    for name, dataset in datasets.items():
        check_prompts(name, dataset)
        refuse_unusable_tokenizer(tokenizer, dataset)
        if dataset is train_dataset:
            check_truths(args, dataset, graders)
            if isinstance(tokenizer, PreTrainedTokenizerBase):
                completion_ends(args, tokenizer, dataset, [tokenizer.eos_token_id])
        if kwargs.get("rollout_func") is None:  # it may bring columns
            check_rewards(name, dataset, rewards, args.solution_column)


def _refuse_prefixes_without_cache(args: BARLConfig, model: Any, peft_config: Any) -> None:
    """Refuse learned prefixes, which are a cache, where gradient checkpointing drops caches."""
    adapters: Any = model.peft_config.values() if isinstance(model, PeftModel) else [peft_config]
    kinds = {adapter.peft_type.value for adapter in adapters if adapter is not None}
    if args.gradient_checkpointing and kinds & {"PREFIX_TUNING", "CARTRIDGE"}:
        raise ValueError(
            f"gradient_checkpointing must be False with {kinds.pop()}, got True: it drops the "
            "cache that holds the learned prefix."
        )


def _refuse_equal_names(rewards: list[Any]) -> None:
    """Refuse rewards that TRL logs under one name, so that one hides the other."""
    names = Counter(map(_logged_as, rewards))
    if repeated := [name for name, number in names.items() if name is not None and number > 1]:
        raise ValueError(
            f"reward_funcs must have names of their own, got {repeated[0]!r} {names[repeated[0]]} "
            "times: their metrics would be mixed up. Define each with `def` and another name."
        )


def _logged_as(reward: Any) -> str | None:
    """Return the name of a function; that of a reward model is in its configuration."""
    while isinstance(reward, partial):
        reward = reward.func
    return getattr(reward, "__name__", type(reward).__name__) if callable(reward) else None
