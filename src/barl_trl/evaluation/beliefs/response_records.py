"""Rollout records of the responses to benchmarks, so that `barl inspect` can show them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from transformers import AutoTokenizer

from ...credit.outcome import standardized_in_group
from ...report.json_files import read_json
from ...steps import turn_step_ends, turns_of
from ...trainer.recorder import TokenTexts, prompt_columns, rollout_table, turn_columns
from ...trainer.records import FOLDER, file_name, record_table, write_records
from ..responses import Response, read_responses
from .response_values import BelievedResponses, tokenized

_RESULTS = ("num_samples", "temperature", "max_tokens", "grader")
"""Settings of `results.json` that the metadata of the records repeats."""


def record_path(folder: Path, benchmark: str) -> Path:
    """Return the path of the records of the responses to a benchmark, in an output folder."""
    return folder / benchmark / FOLDER / file_name(0)


def belief_table(
    texts: TokenTexts, believed: BelievedResponses, *, first: int, tokenizer: Any
) -> pa.Table:
    """Return the responses to one problem as records, with a checkpoint's beliefs.

    Args:
        texts: The texts of the tokenizer's tokens.
        believed: The responses, and what the checkpoint believed at their states.
        first: Number of the first of them among all responses to the benchmark.
        tokenizer: The checkpoint's tokenizer.

    Returns:
        One row per response, with the columns of [`~.rollout_records.SCHEMA`].
    """
    return rollout_table(
        texts,
        believed.generated,
        believed.scored,
        believed.rollouts,
        values=believed.values,
        **_belief_free_columns(believed.responses, believed.generated.prompt_ids, first, tokenizer),
    )


def _table(
    texts: TokenTexts, responses: Sequence[Response], *, first: int, tokenizer: Any
) -> pa.Table:
    """Return the same rows without beliefs.

    Prompt and response are tokenised again, but for the rollouts of agents, whose tokens are in the
    file.
    """
    generated = tokenized(tokenizer, responses)
    given = [response.token_ids for response in responses]
    ids = [
        alone if tokens is None else tokens
        for alone, tokens in zip(generated.completion_ids, given, strict=True)
    ]
    columns = {
        "token_ids": ids,
        "tokens": [*map(texts.of, ids)],
        "step_ends": [[] for _ in ids],
        "answer": [response.answer for response in responses],
    }
    if any(tokens is not None for tokens in given):
        columns |= _turns(responses, ids, [tokenizer.eos_token_id, tokenizer.pad_token_id])
    return record_table(
        columns | _belief_free_columns(responses, generated.prompt_ids, first, tokenizer)
    )


def _turns(
    responses: Sequence[Response], ids: Sequence[Sequence[int]], end_ids: Sequence[int]
) -> dict[str, Any]:
    """Return the columns of agents' turns. A step is a turn."""
    masks = [
        response.own_tokens or [1] * len(tokens)
        for response, tokens in zip(responses, ids, strict=True)
    ]
    turns = [
        turns_of(*rollout, end_ids, runs_are_turns=True) for rollout in zip(ids, masks, strict=True)
    ]
    ends = [
        turn_step_ends(*rollout, step_segmenter=None)
        for rollout in zip(ids, masks, turns, strict=True)
    ]
    completions = [_behind_the_prompt(response.messages or ()) for response in responses]
    return {"step_ends": ends, **turn_columns(masks, completions, turns)}


def _behind_the_prompt(messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the messages behind the last one of a user."""
    asked = [n for n, message in enumerate(messages) if message.get("role") == "user"]
    return [*messages[max(asked, default=-1) + 1 :]]


def _belief_free_columns(
    responses: Sequence[Response], prompt_ids: Sequence[Sequence[int]], first: int, tokenizer: Any
) -> dict[str, Any]:
    """Return the columns of records that can be filled in without beliefs."""
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
    """Return the metadata of the records of a checkpoint's responses to a benchmark."""
    source = {"source": "evaluation", "model": model, "benchmark": benchmark}
    return source | {"reward_names": ["accuracy"], "reward_weights": [1.0]} | more


def convert_responses(folder: Path) -> list[Path]:
    """Write the responses of `barl evaluate` as records, without beliefs.

    It returns the files, `<folder>/<benchmark>/beliefs/rollouts_00000.parquet`. `barl analyze
    values` writes records with beliefs.

    Raises:
        ValueError: A file is missing, a line in it is no response, or the model's tokenizer cannot
            be loaded.
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
    kept_settings = {name: settings.get(name) for name in _RESULTS}
    texts, paths = TokenTexts(tokenizer), []
    for benchmark, by_problem in problems.items():
        tables, first = [], 0
        for responses in by_problem.values():
            tables.append(_table(texts, responses, first=first, tokenizer=tokenizer))
            first += len(responses)
        metadata = response_metadata(settings["model"], benchmark, **kept_settings)
        paths.append(record_path(folder, benchmark))
        write_records(paths[-1], tables, metadata)
    return paths
