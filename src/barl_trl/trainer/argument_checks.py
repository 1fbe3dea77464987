"""Mistakes in a trainer's arguments, found before a model is loaded."""

from typing import Any

from transformers import PreTrainedTokenizerBase

from ..rewards import AccuracyReward, resolve_rewards
from .barl_config import BARLConfig
from .barl_fields import refuse_unused_settings
from .callables import try_step_segmenter
from .dataset_checks import check_prompts, check_rewards, check_truths, refuse_missing_chat_template
from .environment_checks import refuse_missing_vllm
from .turns import completion_ends


def check_trainer_arguments(
    args, reward_funcs, train_dataset, eval_dataset, kwargs: dict[str, Any]
) -> None:
    """Refuse what [`BARLTrainer`] cannot do.

    Args:
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
    if not reward_funcs:
        raise ValueError(
            "reward_funcs must hold at least one function, got none: try "
            "barl_trl.rewards.accuracy_reward."
        )
    length: Any = args.max_completion_length
    rewards = resolve_rewards(reward_funcs, args.extraction, max_completion_length=length)
    rewards = rewards if isinstance(rewards, list) else [rewards]
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
        refuse_missing_chat_template(tokenizer, dataset)
        if dataset is train_dataset:
            check_truths(args, dataset, graders)
            if isinstance(tokenizer, PreTrainedTokenizerBase):
                completion_ends(args, tokenizer, dataset, [tokenizer.eos_token_id])
        if kwargs.get("rollout_func") is None:  # it may bring columns
            check_rewards(name, dataset, rewards, args.solution_column)
