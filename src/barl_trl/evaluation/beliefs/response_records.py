"""Responses to benchmarks as rollout records, so that they are looked at as training's are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from transformers import AutoTokenizer

from ...credit.outcome import standardized_in_group
from ...report.json_files import read_json
from ...report.record_columns import ragged_of
from ...report.rollout_records import FOLDER, file_name, record_table, record_writer
from ...report.token_texts import TokenTexts
from ...trainer.logging.rollout_table import prompt_columns, rollout_table
from ..responses import Response, read_responses
from .response_values import BelievedResponses, tokenized

_RESULTS = ("num_samples", "temperature", "max_tokens", "grader")
"""Settings of `results.json` that records keep."""


def record_path(folder: Path, benchmark: str) -> Path:
    """Return the file with the records of the responses to a benchmark."""
    return folder / benchmark / FOLDER / file_name(0)


def response_table(
    texts: TokenTexts, responses: Sequence[Response], *, first: int, tokenizer: Any
) -> pa.Table:
    """Return the responses to one problem as records, without beliefs.

    Args:
        texts: Of the tokenizer.
        responses: The responses, of one problem.
        first: Number of the first among those of the benchmark.
        tokenizer: That of the model. The texts are tokenised again, prompt and response each on its
            own.
    """
    generated = tokenized(tokenizer, responses)
    ids = generated.completion_ids
    columns = {
        "token_ids": ragged_of(ids, pa.int32()),
        "tokens": texts.column(ids),
        "step_ends": [[] for _ in ids],
        "answer": [response.answer for response in responses],
    }
    return record_table(columns | _known(responses, generated.prompt_ids, first, tokenizer))


def belief_table(
    texts: TokenTexts, found: BelievedResponses, *, first: int, tokenizer: Any
) -> pa.Table:
    """Return the responses to one problem as records, with a checkpoint's beliefs.

    Args:
        texts: Of the tokenizer.
        found: The responses, and what is believed at their states.
        first: Number of the first among those of the benchmark.
        tokenizer: That of the checkpoint.
    """
    return rollout_table(
        texts,
        found.generated,
        found.scored,
        found.rollouts,
        values=found.values,
        **_known(found.responses, found.generated.prompt_ids, first, tokenizer),
    )


def _known(
    responses: Sequence[Response], prompt_ids: Sequence[Sequence[int]], first: int, tokenizer: Any
) -> dict[str, Any]:
    """Return the columns that need no belief."""
    number = len(responses)
    outcomes = torch.tensor([response.reward for response in responses])
    advantages = standardized_in_group(
        outcomes, torch.zeros(number, dtype=torch.long), torch.ones(number, dtype=torch.bool)
    )
    return {
        "step": [0] * number,
        "group": [response.problem_id for response in responses],
        "rollout": [*range(first, first + number)],
        **prompt_columns([response.prompt for response in responses], prompt_ids, tokenizer),
        "solution": [response.solution for response in responses],
        "rewards": outcomes[:, None].tolist(),
        "outcome": outcomes.tolist(),
        "advantage": advantages.tolist(),
        "reason": [response.reason for response in responses],
        "is_cut_off": [response.truncated for response in responses],
    }


def response_metadata(model: str | None, benchmark: str, **more: Any) -> dict[str, Any]:
    """Return the metadata of records of responses.

    Args:
        model: The checkpoint.
        benchmark: The benchmark.
        **more: What else holds for all of them.
    """
    known = {"source": "evaluation", "model": model, "benchmark": benchmark}
    return known | {"reward_names": ["accuracy"], "reward_weights": [1.0]} | more


def convert_responses(folder: Path) -> list[Path]:
    """Write the responses of `barl evaluate` as records, without beliefs.

    `barl analyze values` writes them with beliefs.

    Args:
        folder: What `barl evaluate` wrote.

    Returns:
        The files, `<folder>/<benchmark>/beliefs/rollouts_00000.parquet`.

    Raises:
        ValueError: A file is missing, or a line in it is no response.
    """
    problems, results = read_responses(folder), folder / "results.json"
    if not results.exists():
        raise ValueError(f"folder must have results.json, which names the model, got {folder}.")
    settings = read_json(results, model=str)
    try:  # the folder may be a stranger's
        tokenizer = AutoTokenizer.from_pretrained(settings["model"], trust_remote_code=False)
    except (ValueError, OSError) as error:
        raise ValueError(
            f"{results} must name a model whose tokenizer can be loaded, and needs no code, got "
            f"{settings['model']} ({' '.join(str(error).split()):.200}): give {folder} with its "
            'model\'s folder as "model".'
        ) from None
    how = {name: settings.get(name) for name in _RESULTS}
    texts, paths = TokenTexts(tokenizer), []
    for benchmark, by_problem in problems.items():
        path, first = record_path(folder, benchmark), 0
        metadata = response_metadata(settings["model"], benchmark, **how)
        with record_writer(path, metadata) as write:
            for responses in by_problem.values():
                write(response_table(texts, responses, first=first, tokenizer=tokenizer))
                first += len(responses)
        paths.append(path)
    return paths
