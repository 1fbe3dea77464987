"""Whether a model's table of positions holds its rollouts with the questions for their answers."""

from collections.abc import Callable
from typing import Any

from datasets import Dataset
from torch import nn

from ...hypotheses import is_truth, truth_answer
from ...plausibility.elicitation import Elicitation
from ...plausibility.model_traits import table_positions
from ..barl_config import BARLConfig


def check_positions(
    model: nn.Module,
    tokenize: Callable[[list[Any]], Any],
    dataset: Any,
    elicitation: Elicitation,
    args: BARLConfig,
) -> None:
    """Refuse a `max_completion_length` that leaves no positions to ask for an answer.

    Args:
        model: The policy. A model that computes its positions, instead of a table of them, passes.
        tokenize: Prompts -> a tuple whose first item is their token ids.
        dataset: The training set. A stream passes, because its lengths are not known before its
            batches are scored.
        elicitation: The question for an answer, which is placed after each state.
        args: The settings.

    Raises:
        ValueError: The longest prompt, completion, elicitation and true answer together need more
            positions than the model has.
    """
    most, completion = table_positions(model), args.max_completion_length
    if most is None or completion is None or not isinstance(dataset, Dataset):
        return
    prompt_ids, *_ = tokenize(list(dataset["prompt"]))
    truths = filter(is_truth, map(truth_answer, _texts_to_score(dataset, args)))
    prompt = max(map(len, prompt_ids))
    answer = max((len(elicitation.answer(truth).token_ids) for truth in truths), default=0)
    others = prompt + len(elicitation.token_ids) + answer
    if others + completion > most:
        raise ValueError(
            f"max_completion_length must be at most {most - others}, got {completion}: the model "
            f"has {most} positions, of which the longest prompt ({prompt} tokens), elicitation "
            f"({len(elicitation.token_ids)}) and true answer ({answer}) need {others}. Lower it, "
            "or shorten the prompts."
        )


def _texts_to_score(dataset: Dataset, args: BARLConfig) -> list[Any]:
    """Return the texts of a data set that are scored as answers: true ones, and given ones."""
    columns = dataset.column_names
    texts = list(dataset[args.solution_column]) if args.solution_column in columns else []
    if args.hypotheses_column is not None:
        lists = [row for row in dataset[args.hypotheses_column] if isinstance(row, list)]
        texts += [*dict.fromkeys(text for row in lists for text in row if isinstance(text, str))]
    return texts
