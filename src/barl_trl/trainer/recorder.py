"""`RolloutRecorder` writes every rollout batch of training to a file for `barl inspect`."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from accelerate.utils import gather_object
from torch import Tensor
from transformers import TrainerCallback

from ..credit.rollouts import ScoredRollouts, is_answered
from ..credit.token_weights import TokenWeights
from ..rewards import Completion, calls_tool
from .records import FOLDER, file_name, forget_from, record_table, write_records

_LOST = "\N{REPLACEMENT CHARACTER}"
"""The character to which a tokenizer decodes a part of a character."""


class RolloutRecorder(TrainerCallback):
    """Write each rollout batch of training to `<output_dir>/beliefs`.

    A run that starts, or resumes from a checkpoint, deletes the files of the steps that it is about
    to do again. Each process makes the columns of its own rollouts, and the main process joins
    them.
    """

    def __init__(self, trainer: Any):
        self._trainer = trainer
        self._texts = TokenTexts(trainer._tokenizer)
        self._folder = Path(str(trainer.args.output_dir), FOLDER)
        self._step, self._parts = -1, 0
        self._began_before: float | None = None

    def on_train_begin(self, args, state, control, **kwargs):  # noqa: D102 (transformers')
        self._step, self._parts, self._began_before = -1, 0, None
        if self._trainer.accelerator.is_main_process:
            forget_from(self._folder, state.global_step)

    def record(
        self, batch: Any, rollouts: ScoredRollouts, weighed: TokenWeights, output: Mapping[str, Any]
    ) -> None:
        """Write the rollout batch of all processes, which must call this together.

        TRL's `output` has its own advantages, old log-probabilities (B, L) and importance ratios,
        (B, L) or (B, 1).
        """
        now, accelerator = time.perf_counter(), self._trainer.accelerator
        step = self._trainer.state.global_step + 1  # as the log counts
        self._parts = 0 if step != self._step else self._parts + 1
        self._step = step
        tables = gather_object([self._local_records(batch, rollouts, weighed, output)])
        if accelerator.is_main_process:
            path = self._folder / file_name(step, self._parts)
            write_records(path, tables, self._metadata(batch, now))
        self._began_before = batch.began

    def _local_records(
        self, batch: Any, rollouts: ScoredRollouts, weighed: TokenWeights, output: Mapping[str, Any]
    ) -> pa.Table:
        trainer, scored, generated = self._trainer, batch.scored, batch.generated
        ids, number, rows = generated.completion_ids, len(batch.inputs), batch.inputs
        first = batch.start + self._parts * number * trainer.accelerator.num_processes
        solutions = [row.get(trainer.args.solution_column) for row in rows]
        outcomes = batch.local(batch.outcomes).tolist()
        steps, sizes = [*map(len, scored.step_ends)], [*map(len, ids)]
        columns = {
            "step": [self._step] * number,
            "group": [place // trainer.num_generations for place in range(first, first + number)],
            "rollout": [*range(first, first + number)],
            **self._prompts([row["prompt"] for row in rows], generated.prompt_ids),
            "solution": [None if solution is None else str(solution) for solution in solutions],
            "token_ids": ids,
            "tokens": self._texts.column(ids),
            "step_ends": scored.step_ends,
            "step_values": _cut(weighed.values, rollouts.is_judged.tolist(), steps),
            "rewards": batch.local(batch.rewards_per_func).tolist(),
            "outcome": [None if outcome != outcome else outcome for outcome in outcomes],  # NaN
            "advantage": output["advantages"].tolist(),
            "answer": scored.answers[batch.start : batch.start + number],
            "reason": batch.reasons,
            "is_cut_off": rollouts.is_cut_off.tolist(),
            "cost": None if rollouts.costs is None else rollouts.costs.tolist(),
        }
        of_tokens = {
            "token_logps": output.get("old_per_token_logps"),
            "importance_ratios": output.get("importance_sampling_ratio"),
            "token_weights": weighed.weights,
        }
        for name, numbers in of_tokens.items():
            if numbers is not None:  # one for each token, or for each rollout
                numbers = numbers.expand(-1, max(numbers.shape[1], *sizes))
                columns[name] = _cut(numbers, [True] * number, sizes)
        if (told := generated.turn_rewards) is not None:
            columns["turn_rewards"] = [[None if x != x else x for x in row] for row in told]
        if rollouts.states is not None:
            pairs = zip(rollouts.states.tolist(), steps, strict=True)
            columns["states"] = [row[: max(1, size)] for row, size in pairs]
        if rollouts.answer_logps.shape[2]:
            columns |= _belief_columns(scored, rollouts, steps, trainer._outcome_scale)
        if generated.masks is not None:  # else only the model can have written
            columns |= turn_columns(generated.masks, generated.completions, scored.turns)
            columns["ended_by_tool"] = [n in generated.ended for n in range(len(scored.turns))]
            calls = ("tool_calls" in one for told in generated.completions for one in told)
            if not (generated.has_tools or any(calls)):  # nobody can call any
                columns["ended_in_call"] = None
        return record_table(columns)

    def _prompts(self, prompts: Sequence[Any], prompt_ids: Sequence[Any]) -> dict[str, list[str]]:
        """Return the columns `prompt`, the text that the model reads, and `prompt_id`, a digest."""
        tokenizer = self._trainer._tokenizer
        decode = lru_cache(None)(lambda ids: tokenizer.decode([*ids]))  # a group's are equal
        texts = [
            prompt if isinstance(prompt, str) else decode(tuple(ids))
            for prompt, ids in zip(prompts, prompt_ids, strict=True)
        ]
        digests = [hashlib.sha256(text.encode("utf-8", "surrogatepass")) for text in texts]
        return {"prompt": texts, "prompt_id": [digest.hexdigest()[:12] for digest in digests]}

    def _metadata(self, batch: Any, now: float) -> dict[str, Any]:
        trainer, before = self._trainer, self._began_before
        return {
            "source": "training",
            "model": trainer.model.config._name_or_path,
            "reward_names": trainer.reward_func_names,
            "reward_weights": trainer.reward_weights.tolist(),
            "outcome_scale": trainer._outcome_scale,
            "num_generations": trainer.num_generations,
            "temperature": trainer.temperature,
            "max_completion_length": trainer.args.max_completion_length,
            "settings": trainer.args.settings,
            "seconds": {
                "rollouts": now - batch.began,
                "scoring": trainer._metrics["train"]["barl/scoring_seconds"][-1],
                "since_batch_before": None if before is None else batch.began - before,
            },
        }


def _belief_columns(
    scored: Any, rollouts: ScoredRollouts, steps: list[int], outcome_scale: float
) -> dict[str, Any]:
    """Return the columns of the hypotheses, and of what the task says of them.

    Outcome rewards under the hypotheses are null where they are the scale for the rollout's own
    answer, and 0 for the others.
    """
    sets, states = scored.local_sets, [number + 1 for number in steps]
    exists = [hypotheses is not None for hypotheses in sets]
    sizes = rollouts.hypothesis_mask.sum(dim=1).tolist()
    columns = {
        "hypotheses": [hypotheses and list(hypotheses.answers) for hypotheses in sets],
        "member": rollouts.members,
        "answer_logps": _cut(rollouts.answer_logps, exists, states, sizes),
        "posterior": _cut(rollouts.belief, exists, states, sizes),
        "scored_tokens": scored.likelihoods.rollout_tokens,
        "has_truth": [hypotheses and hypotheses.has_truth for hypotheses in sets],
    }
    if rollouts.rewards is not None:
        columns["predicted_rewards"] = _cut(rollouts.rewards, exists, steps, sizes)
    if rollouts.outcomes_under is not None:
        is_usual = (rollouts.outcomes_under == is_answered(rollouts) * outcome_scale).all(dim=1)
        is_told = [has and not usual for has, usual in zip(exists, is_usual.tolist(), strict=True)]
        columns["outcomes_under"] = _cut(rollouts.outcomes_under, is_told, sizes)
    return columns


def _cut(values: Tensor, exists: Sequence[bool], *sizes: Sequence[int]) -> list[Any]:
    """Cut padded rows, or matrices, to their sizes; None where one does not exist."""
    cut = [
        array[tuple(map(slice, size))] if has else None
        for array, has, *size in zip(values.float().cpu().numpy(), exists, *sizes, strict=True)
    ]
    return cut if values.ndim == 2 else [None if array is None else [*array] for array in cut]


def turn_columns(
    masks: Sequence[Sequence[int]], completions: Sequence[Completion], turns: Sequence[Any]
) -> dict[str, list[Any]]:
    """Return the columns that say what others than the model wrote in rollouts.

    `masks` have 1 for each token that the model wrote, 0 for the others.
    """
    rows: dict[str, list[Any]] = {"own_tokens": [], "turn_ends": [], "observed_tools": []}
    for mask, completion, spans in zip(masks, completions, turns, strict=True):
        values = mask, [turn.stop for turn in spans], _tools(completion, len(spans))
        for column, value in zip(rows.values(), values, strict=True):
            column.append(value if 0 in mask else None)
    return rows | {"ended_in_call": [*map(calls_tool, completions)]}


def _tools(completion: Completion, number: int) -> list[list[str]]:
    """Return the names of the tools whose results stand behind each of so many turns."""
    names: list[list[str]] = []
    for message in () if isinstance(completion, str) else completion:
        if message["role"] == "assistant":
            names.append([])
        elif names and message.get("name"):
            names[-1].append(message["name"])
    return (names + [[]] * number)[:number]


class TokenTexts:
    """The texts of a tokenizer's tokens, which joined in their order are the completion's text.

    An id is decoded behind another token, because some tokenizers drop the space in front of a
    token that stands alone. If several tokens make up one character, the last of them gets it, and
    the others get an empty text. Texts of special tokens are kept. What was decoded is kept, too,
    so that millions of tokens cost little.
    """

    def __init__(self, tokenizer: Any):
        def decode(*ids: int) -> str:
            return tokenizer.decode([*ids], clean_up_tokenization_spaces=False)

        anchor = tokenizer.encode("a", add_special_tokens=False)[-1:]
        cut = len(decode(*anchor))
        self._alone = lru_cache(1 << 16)(decode)
        self._behind = lru_cache(1 << 18)(lambda *ids: decode(*anchor, *ids)[cut:])

    def column(self, rows: Sequence[Sequence[int]]) -> list[list[str]]:
        """Return the text of each token of each completion."""
        return [*map(self._of, rows)]

    def _of(self, ids: Sequence[int]) -> list[str]:
        texts = [*map(self._behind, ids)]
        if ids and _LOST not in (text := self._alone(ids[0])):  # no token stands before it
            texts[0] = text
        start = stop = -1
        for place in [place for place, text in enumerate(texts) if _LOST in text]:
            start, stop = (start if place == stop else place), place + 1
            text = self._behind(*ids[start:stop])
            # a character has at most 4 bytes, each perhaps a token; no more than 16 are joined
            is_last = stop - start == 16 or stop == len(ids) or _LOST not in texts[stop]
            is_whole = is_last or not text.endswith(_LOST)
            texts[place] = text if is_whole else ""
            start = stop if is_whole else start
        return texts
