"""A rollout batch as a table of rollout records: what is known of it, column by column."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from ...credit.rollouts import ScoredRollouts
from ...report.record_columns import matrices, ragged, ragged_of
from ...report.rollout_records import record_table
from ...report.token_texts import TokenTexts
from ..rollouts.hypothesis_scorer import Generated, Scored


def rollout_table(
    texts: TokenTexts,
    generated: Generated,
    scored: Scored,
    rollouts: ScoredRollouts,
    *,
    values: Tensor,
    start: int = 0,
    **known: Any,
) -> pa.Table:
    """Return some rollouts as records ([`~barl_trl.report.rollout_records.SCHEMA`]).

    Args:
        texts: Of the tokenizer.
        generated: Their tokens.
        scored: What is known of them before their rewards.
        rollouts: How estimators of credit see them.
        values: Values of their steps before whitening, (B, T); null where a rollout is not judged.
        start: Index of the first among all rollouts of `scored.answers`.
        **known: The other columns.
    """
    ids, logps = generated.completion_ids, rollouts.answer_logps
    sizes, judged = [*map(len, scored.step_ends)], rollouts.is_judged.tolist()
    columns = {
        "token_ids": ragged_of(ids, pa.int32()),
        "tokens": texts.column(ids),
        "step_ends": ragged_of(scored.step_ends, pa.int32()),
        "step_values": ragged(array(values), sizes, exists=judged),
        "answer": scored.answers[start : start + len(ids)],
    }
    if logps.shape[2]:
        believed = [found is not None for found in scored.local_sets]
        masks = array(rollouts.state_mask), array(rollouts.hypothesis_mask)
        columns |= {
            "hypotheses": [found and list(found.answers) for found in scored.local_sets],
            "member": [*rollouts.members],
            "answer_logps": matrices(array(logps), *masks, exists=believed),
            "posterior": matrices(array(rollouts.belief), *masks, exists=believed),
            "scored_tokens": [*scored.likelihoods.rollout_tokens],
        }
    return record_table(columns | known)


def token_column(values: Tensor | None, ids: Sequence[Sequence[int]]) -> Any:
    """Return a number of each token, (B, L) or (B, 1), as a column; None without any."""
    return None if values is None else ragged(array(values), [*map(len, ids)])


def optional(numbers: Tensor) -> list[float | None]:
    """Return numbers, None for NaN."""
    return [None if number != number else number for number in numbers.tolist()]


def prompt_columns(
    prompts: Sequence[Any], prompt_ids: Sequence[Sequence[int]], tokenizer: Any
) -> Mapping[str, list[str]]:
    """Return the columns of prompts: their texts, by which they are known.

    Args:
        prompts: Texts, or messages, which become the text that the model reads.
        prompt_ids: Their tokens.
        tokenizer: The model's.
    """
    texts, known = [], dict[tuple[int, ...], str]()
    for prompt, ids in zip(prompts, prompt_ids, strict=True):
        if not isinstance(prompt, str):
            key = tuple(ids)
            prompt = known[key] if key in known else tokenizer.decode(ids)
            known[key] = prompt
        texts.append(prompt)
    digests = {text: hashlib.sha256(text.encode("utf-8", "surrogatepass")) for text in set(texts)}
    return {"prompt": texts, "prompt_id": [digests[text].hexdigest()[:12] for text in texts]}


def array(values: Tensor) -> Any:
    """Return numbers or truth values as an array."""
    values = values.detach()
    return (values if values.dtype == torch.bool else values.float()).cpu().numpy()
