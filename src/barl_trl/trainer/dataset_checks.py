"""Mistakes in data sets, found before a model is loaded: prompts, true answers, rewards."""

import difflib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute
from datasets import Dataset, IterableDataset
from torch import nn
from transformers import PreTrainedTokenizerBase
from trl import is_conversational

from ..data.loading import PROBLEM_COLUMNS
from ..data.suspicions import unreadable
from ..hypotheses import is_truth, truth_answer
from ..rewards import AccuracyReward
from .barl_config import BARLConfig

pc: Any = pyarrow.compute  # its functions are made when it is imported

LOOKED_AT = 200
"""Rows whose true answers are looked at."""

PASSED_TO_REWARDS = (
    "prompts",
    "completions",
    "completion_ids",
    "trainer_state",
    "log_extra",
    "log_metric",
)
"""Arguments of reward functions that TRL makes; `environments` is another, where there are some."""


def check_prompts(name: str, dataset: Any) -> None:
    """Refuse a data set in which a prompt is missing, or that is none.

    Args:
        name: The argument that it is.
        dataset: The data set. Of a stream the first row is looked at.

    Raises:
        TypeError: It is no data set.
        ValueError: It has no rows, no prompts, or images.
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
        known = {column.lower(): column for column in columns}
        near = next((known[column] for column in PROBLEM_COLUMNS if column in known), None)
        rename = f"rename_column({near!r}, 'prompt') makes it, and " if near else ""
        raise ValueError(
            f"{name} must have the column 'prompt', got {columns}: "
            f"{rename}barl_trl.data.load_problems reads most data sets."
        )
    empty = None if first["prompt"] else 0
    if isinstance(dataset, Dataset):
        prompts = dataset.select_columns("prompt").with_format("arrow")[:]["prompt"]
        empty = _first_empty(prompts.combine_chunks())
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


def check_truths(
    args: BARLConfig, dataset: Dataset | IterableDataset, graders: Sequence[str]
) -> None:
    """Refuse a data set to train on that gives no step, or whose true answers are of no use.

    Args:
        args: The settings.
        dataset: The data set; [`check_prompts`] has nothing against it.
        graders: Names of the graders that read the true answers.

    Raises:
        ValueError: There is no column of true answers, most of its answers cannot be used, or the
            rows do not fill a rollout batch.
    """
    column, columns = args.solution_column, _columns(dataset)
    if column not in columns:
        others = [name for name in columns if name.lower() not in PROBLEM_COLUMNS]
        nearest = difflib.get_close_matches(column, others, n=1) or others[:1] * (len(others) == 1)
        raise ValueError(
            f"solution_column must name the column of true answers in train_dataset, got "
            f"{column!r} with the columns {columns}"
            + (
                f": did you mean solution_column={nearest[0]!r}?"
                if nearest
                else ": add or name it."
            )
        )
    batch: Any = args.generation_batch_size
    prompts = batch // args.num_generations
    if isinstance(dataset, Dataset) and len(dataset) < prompts:
        raise ValueError(
            f"train_dataset must have at least {prompts} rows, the prompts of a rollout batch, got "
            f"{len(dataset)}: lower prompts_per_rollout_batch or generation_batch_size."
        )
    rows: Any = dataset.select_columns(column).take(LOOKED_AT)
    truths = [truth_answer(row[column]) for row in rows]
    usable = [truth for truth in truths if is_truth(truth)]
    if 2 * len(usable) < len(truths):
        raise ValueError(
            f"solution_column must hold true answers, got {column!r}, where "
            f"{len(truths) - len(usable)} of the first {len(truths)} rows have none that can be "
            "used: name another column. `barl data check` lists the rows of a file."
        )
    unread = unreadable(usable, LOOKED_AT) if "math_verify" in graders else set()
    number = sum(truth in unread for truth in usable)
    if 2 * number > len(usable):
        raise ValueError(
            f"solution_column must hold true answers that math_verify reads, got {number} of "
            f"{len(usable)} that it does not, such as {min(unread)!r}: name another column, or "
            "grade with reward_funcs='string'."
        )


def check_rewards(
    name: str, dataset: Dataset | IterableDataset, rewards: Sequence[Any], solution_column: str
) -> None:
    """Refuse reward functions that do not take what TRL passes.

    Args:
        name: The data set's argument.
        dataset: The data set, whose columns are passed.
        rewards: Reward functions.
        solution_column: The column of true answers.

    Raises:
        ValueError: A function has other arguments, or a column the name of one that TRL makes.
    """
    columns = _columns(dataset)
    if clashes := sorted({*PASSED_TO_REWARDS, "environments"} & set(columns)):
        raise ValueError(
            f"{name} must have no column {clashes[0]!r}, got {columns}: reward functions get an "
            "argument of that name. Rename the column, or remove it."
        )
    given = {*PASSED_TO_REWARDS, *columns} - {"prompt", "completion"}
    for reward in rewards:
        if isinstance(reward, AccuracyReward) and "solution" not in columns:
            raise ValueError(
                f"{name} must have the column 'solution' for {reward.__name__}, got {columns}: "
                f"rename {solution_column!r} to it."
            )
        is_function = callable(reward) and not isinstance(reward, nn.Module)
        if is_function and (problem := _why_not_callable_with(reward, given)):
            raise ValueError(
                f"reward_funcs must take the columns of {name}, got "
                f"{getattr(reward, '__name__', reward)}: {problem}. Its arguments are "
                f"{', '.join(sorted(given))}; **kwargs takes those that it does not use."
            )


def refuse_unusable_tokenizer(tokenizer: Any, dataset: Any) -> None:
    """Refuse a tokenizer that cannot end a completion, or write prompts of messages.

    Args:
        tokenizer: Where it is None, nothing is known yet.
        dataset: The data set.

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
    if tokenizer.chat_template is None and is_conversational(next(iter(dataset))):
        raise ValueError(
            f"processing_class must have a chat template for messages, {of_what}: set "
            "processing_class.chat_template, or make each prompt a text, as "
            "load_problems(conversational=False) does."
        )


def _columns(dataset: Dataset | IterableDataset) -> list[str]:
    return list(dataset.column_names or next(iter(dataset)))


def _first_empty(prompts: Any) -> int | None:
    """Return the first row without text; messages without content have none."""
    kind = prompts.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        is_empty = pc.equal(pc.list_value_length(prompts), 0)
        if pa.types.is_struct(kind.value_type) and kind.value_type.get_field_index("content") >= 0:
            contents = pc.struct_field(pc.list_flatten(prompts), "content")
            rows = pc.list_parent_indices(prompts).filter(pc.is_null(contents))
            is_empty = pc.or_(pc.is_null(is_empty), pc.fill_null(is_empty, True))
            is_empty = pc.or_(is_empty, pc.is_in(pa.array(range(len(prompts))), rows))
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        is_empty = pc.equal(pc.utf8_length(prompts), 0)
    else:
        is_empty = pc.is_null(prompts)
    found = pc.index(pc.fill_null(is_empty, True), True).as_py()
    return None if found < 0 else found


def _why_not_callable_with(function: Callable[..., Any], names: set[str]) -> str | None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # not written in Python
        return None
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        return str(error)
    return None
