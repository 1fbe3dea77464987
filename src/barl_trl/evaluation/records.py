"""Rollout records of the responses to benchmarks, so that `barl inspect` can show them."""

import hashlib
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from ..credit.outcome import standardized_in_group
from ..steps import turn_step_ends, turns_of
from ..trainer.recorder import TokenTexts, turn_columns
from ..trainer.records import FOLDER, file_name, record_table, write_records
from .json_files import read_object
from .responses import Response, read_responses
from .templates import read_tokenizer


def convert_responses(folder: Path) -> list[Path]:
    """Write the responses of `barl evaluate` as records, without beliefs; return the files.

    Raises:
        ValueError: A file is missing, a line in it is no response, or the model's tokenizer cannot
            be loaded.
    """
    problems, results = read_responses(folder), folder / "results.json"
    if not results.exists():
        raise ValueError(f"folder must have results.json, which names the model, got {folder}.")
    settings = read_object(results, model=str)
    tokenizer = read_tokenizer(settings["model"], f"the model of {results}")
    names = ("num_samples", "temperature", "max_tokens", "grader")
    more = {name: settings.get(name) for name in names}
    texts, paths = TokenTexts(tokenizer), []
    for benchmark, by_problem in problems.items():
        firsts = accumulate(map(len, by_problem.values()), initial=0)
        tables = [
            response_table(texts, responses, first=first, tokenizer=tokenizer)
            for responses, first in zip(by_problem.values(), firsts, strict=False)
        ]
        paths.append(write_responses(folder, benchmark, tables, settings["model"], **more))
    return paths


def write_responses(
    folder: Path, benchmark: str, tables: Sequence[pa.Table], model: str, **more: Any
) -> Path:
    """Write the records of a checkpoint's responses to a benchmark, and return their file."""
    metadata = {"source": "evaluation", "model": model, "benchmark": benchmark}
    metadata |= {"reward_names": ["accuracy"], "reward_weights": [1.0]} | more
    path = folder / benchmark / FOLDER / file_name(0)
    write_records(path, tables, metadata)
    return path


def response_table(
    texts: TokenTexts, responses: Sequence[Response], *, first: int, tokenizer: Any, **more: Any
) -> pa.Table:
    """Return the responses to one problem as records, with `more` columns of the schema.

    Responses are tokenised again, but for agents', whose tokens are in the file. `first` is the
    number of the first of them among all responses to the benchmark.
    """
    number = len(responses)
    ids = [
        response.token_ids or tokenizer.encode(response.response, add_special_tokens=False)
        for response in responses
    ]
    outcomes = torch.tensor([response.reward for response in responses])
    advantages = standardized_in_group(
        outcomes, torch.zeros(number, dtype=torch.long), torch.ones(number, dtype=torch.bool)
    )
    digest = hashlib.sha256(responses[0].prompt.encode("utf-8", "surrogatepass")).hexdigest()
    columns = {
        "step": [0] * number,
        "group": [response.problem_id for response in responses],
        "rollout": [*range(first, first + number)],
        "prompt": [response.prompt for response in responses],
        "prompt_id": [digest[:12]] * number,
        "solution": [response.solution for response in responses],
        "token_ids": ids,
        "tokens": texts.column(ids),
        "step_ends": [[] for _ in ids],
        "answer": [response.answer for response in responses],
        "rewards": outcomes[:, None].tolist(),
        "outcome": outcomes.tolist(),
        "advantage": advantages.tolist(),
        "reason": [response.reason for response in responses],
        "is_cut_off": [response.truncated for response in responses],
    }
    if any(response.token_ids is not None for response in responses):
        columns |= _turns(responses, ids, [tokenizer.eos_token_id, tokenizer.pad_token_id])
    return record_table(columns | more)


def _turns(
    responses: Sequence[Response], ids: Sequence[Sequence[int]], end_ids: Sequence[int]
) -> dict[str, Any]:
    """Return the columns of agents' turns. A step is a turn."""
    masks, turns, ends, completions = [], [], [], []
    for response, tokens in zip(responses, ids, strict=True):
        masks.append(response.own_tokens or [1] * len(tokens))
        turns.append(turns_of(tokens, masks[-1], end_ids, runs_are_turns=True))
        ends.append(turn_step_ends(tokens, masks[-1], turns[-1], step_segmenter=None))
        messages = response.messages or []
        asked = [n for n, message in enumerate(messages) if message["role"] == "user"]
        completions.append(messages[max(asked, default=-1) + 1 :])
    return {"step_ends": ends, **turn_columns(masks, completions, turns)}
