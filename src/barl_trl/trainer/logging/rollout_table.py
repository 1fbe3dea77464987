"""`rollout_table` makes a table of rollout records from scored rollouts."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from ...credit.rollouts import ScoredRollouts, is_answered
from ...report.record_columns import matrices, ragged, ragged_of
from ...report.rollout_records import record_table
from ...report.token_texts import TokenTexts
from ...rewards import Completion, calls_tool
from ...steps import Turn
from ..rollouts.hypothesis_scorer import Generated, Scored


def rollout_table(
    texts: TokenTexts,
    generated: Generated,
    scored: Scored,
    rollouts: ScoredRollouts,
    *,
    values: Tensor,
    start: int = 0,
    outcome_scale: float = 1.0,
    of_tokens: Mapping[str, Tensor | None] | None = None,
    **others: Any,
) -> pa.Table:
    """Return some rollouts as records ([`~barl_trl.report.rollout_records.SCHEMA`]).

    Args:
        texts: The texts of the tokenizer's tokens.
        generated: The tokens of the rollouts.
        scored: The hypotheses of the rollouts and their log-likelihoods.
        rollouts: The rollouts with their outcomes and beliefs.
        values: Values of their steps before whitening, (B, T). They become null where a rollout is
            not judged.
        start: Index of the first rollout in `scored.answers`.
        outcome_scale: Outcome reward of a right answer. Outcome rewards under the hypotheses are
            null where they are this for the rollout's own answer, and 0 for the others.
        of_tokens: Columns with a number for each token: (B, L), or (B, 1) for one number per
            rollout. A column of None is null.
        **others: The other columns of the table, by name.
    """
    ids, logps = generated.completion_ids, rollouts.answer_logps
    sizes, judged = [*map(len, scored.step_ends)], rollouts.is_judged.tolist()
    columns = {
        "token_ids": ragged_of(ids, pa.int32()),
        "tokens": texts.column(ids),
        "step_ends": ragged_of(scored.step_ends, pa.int32()),
        "step_values": ragged(_array(values), sizes, exists=judged),
        "answer": scored.answers[start : start + len(ids)],
    }
    for name, numbers in (of_tokens or {}).items():
        if numbers is not None:
            columns[name] = ragged(_array(numbers), [*map(len, ids)])
    if logps.shape[2]:
        has_belief = [hypotheses is not None for hypotheses in scored.local_sets]
        masks = _array(rollouts.state_mask), _array(rollouts.hypothesis_mask)
        columns |= {
            "hypotheses": [
                hypotheses and list(hypotheses.answers) for hypotheses in scored.local_sets
            ],
            "member": [*rollouts.members],
            "answer_logps": matrices(_array(logps), *masks, exists=has_belief),
            "posterior": matrices(_array(rollouts.belief), *masks, exists=has_belief),
            "scored_tokens": [*scored.likelihoods.rollout_tokens],
            "has_truth": [hypotheses and hypotheses.has_truth for hypotheses in scored.local_sets],
            "cost": None if rollouts.costs is None else rollouts.costs.tolist(),
        }
        columns |= _task_columns(rollouts, has_belief, outcome_scale)
    if generated.masks is not None:  # else only the model can have written
        columns |= turn_columns(generated.masks, generated.completions, scored.turns)
    return record_table(columns | others)


def _task_columns(
    rollouts: ScoredRollouts, has_belief: Sequence[bool], outcome_scale: float
) -> dict[str, Any]:
    """Return what the user's functions say of outcomes and rewards under each hypothesis."""
    columns = {}
    if rollouts.rewards is not None:
        masks = _array(rollouts.step_mask), _array(rollouts.hypothesis_mask)
        columns["predicted_rewards"] = matrices(_array(rollouts.rewards), *masks, exists=has_belief)
    if rollouts.outcomes_under is not None:
        is_usual = rollouts.outcomes_under == is_answered(rollouts) * outcome_scale
        told = [has and not usual for has, usual in zip(has_belief, is_usual.all(1), strict=True)]
        sizes = rollouts.hypothesis_mask.sum(dim=1).tolist()
        columns["outcomes_under"] = ragged(_array(rollouts.outcomes_under), sizes, exists=told)
    return columns


def turn_columns(
    masks: Sequence[Sequence[int]],
    completions: Sequence[Completion],
    turns: Sequence[Sequence[Turn]],
) -> dict[str, list[Any]]:
    """Return the columns that say what others than the model wrote in rollouts.

    Args:
        masks: For each rollout 1 for each token that the model wrote, 0 for the others.
        completions: The completions, as texts or messages.
        turns: Their turns.
    """
    has_others = [0 in mask for mask in masks]

    def of_others(values: Iterable[Any]) -> list[Any]:
        return [value if has else None for has, value in zip(has_others, values, strict=True)]

    return {
        "own_tokens": of_others(masks),
        "turn_ends": of_others([turn.stop for turn in spans] for spans in turns),
        "observed_tools": of_others(map(_tools, completions, turns)),
        "ended_in_call": [*map(calls_tool, completions)],
    }


def _tools(completion: Completion, turns: Sequence[Turn]) -> list[list[str]]:
    """Return the names of the tools whose results stand behind each turn."""
    names: list[list[str]] = []
    for message in () if isinstance(completion, str) else completion:
        if message["role"] == "assistant":
            names.append([])
        elif names and message.get("name"):
            names[-1].append(message["name"])
    return (names + [[]] * len(turns))[: len(turns)]


def prompt_columns(
    prompts: Sequence[Any], prompt_ids: Sequence[Sequence[int]], tokenizer: Any
) -> Mapping[str, list[str]]:
    """Return the columns `prompt`, a text, and `prompt_id`, a digest of that text.

    Args:
        prompts: Texts or messages. Messages become the text that the model reads.
        prompt_ids: Token ids of each prompt.
        tokenizer: The model's tokenizer.
    """
    texts, decoded = [], dict[tuple[int, ...], str]()
    for prompt, ids in zip(prompts, prompt_ids, strict=True):
        if not isinstance(prompt, str):
            key = tuple(ids)
            prompt = decoded[key] if key in decoded else tokenizer.decode(ids)
            decoded[key] = prompt
        texts.append(prompt)
    digests = {text: hashlib.sha256(text.encode("utf-8", "surrogatepass")) for text in set(texts)}
    return {"prompt": texts, "prompt_id": [digests[text].hexdigest()[:12] for text in texts]}


def _array(values: Tensor) -> Any:
    """Return a tensor as a NumPy array of the same shape, in float32 or bool."""
    kept = values if values.dtype == torch.bool else values.float()
    return kept.detach().cpu().numpy()
