"""Mistakes in a trainer's arguments, found before a model is loaded."""

import difflib
from pathlib import Path
from typing import Any

from datasets import Dataset, IterableDataset

from ..graders import GRADERS
from ..rewards import AccuracyReward
from .barl_config import BARLConfig
from .barl_fields import refuse_unused_settings
from .environment_checks import refuse_missing_vllm


def check_trainer_arguments(args, reward_funcs, train_dataset, kwargs: dict[str, Any]) -> None:
    """Refuse what [`BARLTrainer`] cannot do.

    Args:
        args: Must be a [`BARLConfig`].
        reward_funcs: Must not be empty.
        train_dataset: Must be text with a column of true answers.
        kwargs: The trainer's other arguments: no tools and no environments, and no
            `answer_extractor` where `args` say what is read.

    Raises:
        ImportError: `args.use_vllm` without vLLM.
        TypeError: `args` is another configuration, or `train_dataset` no dataset.
        ValueError: Any other of these rules is broken.
    """
    if not isinstance(args, BARLConfig):
        raise TypeError(
            f"args must be a BARLConfig, got {type(args).__name__}: BARLConfig takes all of its "
            "fields."
        )
    refuse_unused_settings(args)
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
    if not reward_funcs:
        raise ValueError(
            "reward_funcs must hold at least one function, got none: try "
            "barl_trl.rewards.accuracy_reward."
        )
    if train_dataset is None:
        return  # TRL's error is clear
    if not isinstance(train_dataset, Dataset | IterableDataset):
        raise TypeError(
            f"train_dataset must be a datasets.Dataset or IterableDataset, got "
            f"{type(train_dataset).__name__}: Dataset.from_list makes one of a list of rows."
        )
    columns = train_dataset.column_names or list(next(iter(train_dataset), {}))
    if images := {"image", "images"} & set(columns):
        raise ValueError(
            f"train_dataset must be text-only, got the column {sorted(images)}: remove it."
        )
    if args.solution_column not in columns:
        nearest = difflib.get_close_matches(args.solution_column, columns, n=1)
        raise ValueError(
            f"solution_column must name the column of true answers in train_dataset, got "
            f"{args.solution_column!r} with the columns {columns}"
            + (f": did you mean {nearest[0]!r}?" if nearest else ": add or name it.")
        )
    functions = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
    for reward in functions:
        if not isinstance(reward, str) or Path(reward).exists():
            continue
        if nearest := difflib.get_close_matches(reward, GRADERS, n=1, cutoff=0.8):
            raise ValueError(
                f"reward_funcs must hold functions, graders' names ({', '.join(GRADERS)}) or "
                f"reward models, got {reward!r}: did you mean {nearest[0]!r}?"
            )
    named = [reward.__name__ for reward in functions if isinstance(reward, AccuracyReward)]
    if named and "solution" not in columns:
        raise ValueError(
            f"train_dataset must have the column 'solution' for {named[0]}, got {columns}: "
            f"rename {args.solution_column!r} to it."
        )
