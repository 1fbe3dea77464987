"""Mistakes in data sets, found before a model is loaded: prompts, true answers, rewards."""

import difflib
import inspect
from collections.abc import Sequence
from itertools import islice
from typing import Any

from datasets import Dataset, IterableDataset
from torch import nn
from transformers import PreTrainedTokenizerBase
from trl import is_conversational

from ...data import PROBLEM_COLUMNS, unreadable
from ...hypotheses import is_truth, truth_answer
from ...rewards import AccuracyReward
from ..barl_config import BARLConfig
from ..rollouts.agents import ROLLOUT_ANSWER

_LOOKED_AT = 200
"""Number of first rows whose true answers are checked."""

_TRL_ARGUMENTS = ("prompts", "completions", "completion_ids", "trainer_state")
_TRL_ARGUMENTS += ("log_extra", "log_metric")
"""Arguments that TRL passes to reward functions. With environments it also passes
`environments`."""


def check_datasets(
    args: BARLConfig, train_dataset: Any, eval_dataset: Any, rewards: Sequence[Any], kwargs: Any
) -> None:
    """Refuse data sets that [`BARLTrainer`] cannot train on or evaluate.

    Args:
        args: The settings.
        train_dataset: It must have text prompts, a column of true answers, and the columns that the
            rewards take.
        eval_dataset: None, a data set, or a dict of data sets. Each must have text prompts and the
            columns that the rewards take.
        rewards: The reward functions.
        kwargs: The trainer's other arguments.

    Raises:
        TypeError: An argument is not a data set.
        ValueError: A data set breaks a rule.
    """
    datasets = {"train_dataset": train_dataset, "eval_dataset": eval_dataset}
    if isinstance(eval_dataset, dict):
        del datasets["eval_dataset"]
        datasets |= {f"eval_dataset[{name!r}]": dataset for name, dataset in eval_dataset.items()}
    graders = [reward.grader.name for reward in rewards if isinstance(reward, AccuracyReward)]
    if not graders and kwargs.get("answer_equivalence") is None:
        graders = ["math_verify"]
    for name, dataset in datasets.items():
        if dataset is None:
            continue
        _check_prompts(name, dataset)
        if dataset is train_dataset:
            if args.own_credit.needs_truth:
                _check_truths(args, dataset, graders)
            _check_number(args, dataset)
        if kwargs.get("rollout_func") is None:  # a rollout_func may add columns
            has_environments = kwargs.get("environment_factory")
            others = ["environments", ROLLOUT_ANSWER] if has_environments else []
            _check_rewards(name, dataset, rewards, args.solution_column, others)


def _check_prompts(name: str, dataset: Any) -> None:
    """Refuse an object that is not a data set, has no rows, or lacks a prompt.

    Only the first row of a stream is checked.
    """
    if not isinstance(dataset, Dataset | IterableDataset):
        raise TypeError(
            f"{name} must be a datasets.Dataset or IterableDataset, got "
            f"{type(dataset).__name__}: Dataset.from_list makes one of a list of rows."
        )
    first = next(iter(dataset), None)
    if first is None:
        raise ValueError(f"{name} must have rows, got none: give it some.")
    columns = _columns(dataset)
    if images := {"image", "images"} & set(columns):
        raise ValueError(f"{name} must be text-only, got the column {sorted(images)}: remove it.")
    if "prompt" not in columns:
        by_lower = {column.lower(): column for column in columns}
        near = next((by_lower[name] for name in PROBLEM_COLUMNS if name in by_lower), None)
        rename = f"rename_column({near!r}, 'prompt') makes it, and " if near else ""
        raise ValueError(
            f"{name} must have the column 'prompt', got {columns}: "
            f"{rename}barl_trl.data.load_problems reads most data sets."
        )
    empty = _first_empty(dataset if isinstance(dataset, Dataset) else dataset.take(1))
    if empty is not None:
        raise ValueError(
            f"{name} must have a prompt in every row, got none in row {empty}: remove such rows, "
            "as barl_trl.data.load_problems does."
        )
    if not (isinstance(first["prompt"], str) or is_conversational(first)):
        raise ValueError(
            f"{name} must have texts or lists of messages as prompts, got {first['prompt']!r}: a "
            "message is a dict with 'role' and 'content'."
        )


def _check_number(args: BARLConfig, dataset: Dataset | IterableDataset) -> None:
    """Refuse a training set that is smaller than a rollout batch."""
    batch: Any = args.generation_batch_size
    prompts = batch // args.num_generations
    if isinstance(dataset, Dataset) and len(dataset) < prompts:
        raise ValueError(
            f"train_dataset must have at least {prompts} rows, the prompts of a rollout batch, got "
            f"{len(dataset)}: lower prompts_per_rollout_batch or generation_batch_size."
        )


def _check_truths(
    args: BARLConfig, dataset: Dataset | IterableDataset, graders: Sequence[str]
) -> None:
    """Refuse a training set that lacks usable true answers."""
    column, columns = args.solution_column, _columns(dataset)
    if column not in columns:
        others = [name for name in columns if name.lower() not in PROBLEM_COLUMNS]
        nearest = difflib.get_close_matches(column, others, n=1) or others[:1] * (len(others) == 1)
        hint = f"did you mean solution_column={nearest[0]!r}?" if nearest else "add or name it."
        raise ValueError(
            "solution_column must name the column of true answers in train_dataset, got "
            f"{column!r} with the columns {columns}: {hint}"
        )
    first_rows: Any = dataset.select_columns(column).take(_LOOKED_AT)
    truths = [truth_answer(row[column]) for row in first_rows]
    usable = [truth for truth in truths if is_truth(truth)]
    if 2 * len(usable) < len(truths):
        raise ValueError(
            f"solution_column must hold true answers, got {column!r}, where "
            f"{len(truths) - len(usable)} of the first {len(truths)} rows have none that can be "
            "used: name another column. `barl data check` lists the rows of a file."
        )
    unread = unreadable(usable, _LOOKED_AT) if "math_verify" in graders else set()
    number = sum(truth in unread for truth in usable)
    if 2 * number > len(usable):
        raise ValueError(
            f"solution_column must hold true answers that math_verify reads, got {number} of "
            f"{len(usable)} that it does not, such as {min(unread)!r}: name another column, or "
            "grade with reward_funcs='string'."
        )


def _check_rewards(
    name: str,
    dataset: Dataset | IterableDataset,
    rewards: Sequence[Any],
    solution_column: str,
    others: Sequence[str],
) -> None:
    """Refuse reward functions that do not take the arguments and columns that TRL passes.

    Args:
        name: What messages call the data set.
        dataset: The data set.
        rewards: The reward functions.
        solution_column: The column of true answers.
        others: Other arguments that TRL passes.
    """
    columns = _columns(dataset)
    if clashes := sorted({*_TRL_ARGUMENTS, "environments", ROLLOUT_ANSWER} & set(columns)):
        raise ValueError(
            f"{name} must have no column {clashes[0]!r}, got {columns}: reward functions get an "
            "argument of that name. Rename the column, or remove it."
        )
    passed = {*_TRL_ARGUMENTS, *columns, *others} - {"prompt", "completion"}
    for reward in rewards:
        if isinstance(reward, AccuracyReward) and "solution" not in columns:
            raise ValueError(
                f"{name} must have the column 'solution' for {reward.__name__}, got {columns}: "
                f"rename {solution_column!r} to it."
            )
        if problem := _why_not_callable_with(reward, passed):
            raise ValueError(
                f"reward_funcs must take the columns of {name}, got "
                f"{getattr(reward, '__name__', reward)}: {problem}. Its arguments are "
                f"{', '.join(sorted(passed))}; **kwargs takes those that it does not use."
            )


def refuse_unusable_tokenizer(tokenizer: Any, dataset: Any) -> None:
    """Refuse a tokenizer that cannot end a completion, or cannot write messages as a prompt.

    Args:
        tokenizer: The tokenizer; an object of another type, such as None, passes.
        dataset: The data set, whose first row tells whether prompts are messages. An object of
            another type is not looked at.

    Raises:
        ValueError: The tokenizer has no EOS token, or no chat template.
    """
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        return
    of_what = f"got none in that of {tokenizer.name_or_path or type(tokenizer).__name__}"
    if tokenizer.eos_token is None:
        raise ValueError(
            f"processing_class must have an EOS token, {of_what}: set processing_class.eos_token "
            "to the token that ends an answer."
        )
    examples = dataset if isinstance(dataset, Dataset | IterableDataset) else ()
    if tokenizer.chat_template is None and any(map(is_conversational, islice(examples, 1))):
        raise ValueError(
            f"processing_class must have a chat template for messages, {of_what}: set "
            "processing_class.chat_template, or make each prompt a text, as "
            "load_problems(conversational=False) does."
        )


def _columns(dataset: Dataset | IterableDataset) -> list[str]:
    return list(dataset.column_names or next(iter(dataset)))


def _first_empty(dataset: Dataset | IterableDataset) -> int | None:
    """Return the index of the first row whose prompt has no text; None if all have one.

    Messages without content count as no text.
    """
    tables: Any = dataset.select_columns("prompt").with_format("arrow").iter(1000)
    prompts = (prompt for table in tables for prompt in table["prompt"].to_pylist())
    return next((row for row, prompt in enumerate(prompts) if _is_empty(prompt)), None)


def _is_empty(prompt: Any) -> bool:
    messages = prompt if isinstance(prompt, list) else ()
    contents = [message.get("content", "") for message in messages if isinstance(message, dict)]
    return not prompt or None in contents or None in messages


def signature_of(reward: Any) -> inspect.Signature | None:
    """Return the signature of a reward function.

    It is None for a reward model, and for a function whose signature Python cannot read.
    """
    if not callable(reward) or isinstance(reward, nn.Module):
        return None
    try:
        return inspect.signature(reward)
    except (TypeError, ValueError):
        return None


def _why_not_callable_with(reward: Any, names: set[str]) -> str | None:
    """Say why a reward function cannot be called with these arguments; None if it can."""
    try:
        if signature := signature_of(reward):
            signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        return str(error)
    return None
