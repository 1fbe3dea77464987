"""Rows left out of training on request: duplicates, evaluation problems and long prompts."""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .decontamination import EvaluationProblems
from .suspicions import problem_key

if TYPE_CHECKING:
    from datasets import Dataset

_logger = logging.getLogger(__name__)


def select(
    problems: Sequence[str],
    *,
    deduplicate: bool,
    evaluation_sets: Mapping[str, Sequence[str]],
    decontaminate: Collection[str],
) -> tuple[list[str | None], list[str | None]]:
    """Return why each row is left out, and which evaluation sets it is in; None for neither.

    Rows with an empty problem are not looked at. See
    [`load_problems`][barl_trl.data.load_problems] for the options.
    """
    if unknown := set(decontaminate) - set(evaluation_sets):
        raise ValueError(
            f"decontaminate must name evaluation_sets, got {sorted(unknown)} with "
            f"{list(evaluation_sets)}: add their problems."
        )
    held_out = EvaluationProblems(evaluation_sets)
    reasons: list[str | None] = [None] * len(problems)
    found_in: list[str | None] = [None] * len(problems)
    seen = set()
    for place, problem in enumerate(problems):
        if not problem:
            continue
        sets = held_out.sets_with(problem)
        found_in[place] = "+".join(sets) or None
        if set(sets) & set(decontaminate):
            reasons[place] = f"in {found_in[place]}"
        elif deduplicate:
            key = problem_key(problem)
            reasons[place] = "duplicate" if key in seen else None
            seen.add(key)
    return reasons, found_in


def with_short_prompts(
    dataset: "Dataset", tokenizer: Any, most: int | None, **template_kwargs: Any
) -> "Dataset":
    """Return the rows whose prompt has at most `most` tokens; a warning counts the others.

    Args:
        dataset: Rows with a `prompt`, plain text or messages.
        tokenizer: The model's tokenizer.
        most: Most tokens of a prompt; None: all rows stay.
        **template_kwargs: Arguments of the chat template.

    Raises:
        ValueError: No row stays.
    """
    if most is None:
        return dataset

    def fits(prompt) -> bool:
        if isinstance(prompt, str):
            return len(tokenizer(prompt)["input_ids"]) <= most
        encoded = tokenizer.apply_chat_template(
            prompt, add_generation_prompt=True, return_dict=True, **template_kwargs
        )
        return len(encoded["input_ids"]) <= most

    short = dataset.filter(fits, input_columns="prompt")
    if not len(short):
        raise ValueError(
            f"max_prompt_length must leave at least one row, got {most}: all of the "
            f"{len(dataset)} prompts are longer."
        )
    if len(short) < len(dataset):
        left_out = f"{len(dataset) - len(short)} of {len(dataset)} rows left out"
        _logger.warning("%s: prompt of more than max_prompt_length=%d tokens", left_out, most)
    return short
