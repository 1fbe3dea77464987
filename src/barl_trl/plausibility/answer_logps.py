"""How plausible a causal language model finds each hypothesis's answer at each state of a rollout.

All answers of a rollout are scored in one forward over a packed row (`shared_prefix`), or, where a
model does not allow that, in one row for every state and answer (`reencode`).
"""

import logging
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from .budget import MEMORY_IS_SHORT, MIN_TOKENS, halved_together, scoring_token_budget
from .comparison import choose_feeding
from .forward import token_logps
from .model_traits import evaluating, is_sharded, table_positions
from .queries import Rollout
from .rows import Row, build_rows

logger = logging.getLogger(__name__)


class AnswerLogLikelihoods(NamedTuple):
    """Answer log-likelihoods of B rollouts, padded to S states and H hypotheses.

    Args:
        answer_logps: Log-likelihood of each answer, in [-inf, 0], never NaN; 0 in padding.
        state_mask: Which states exist.
        hypothesis_mask: Which hypotheses exist.
        completion_logps: Log-probability of each rollout's tokens from its `score_from` on; 0 in
            padding.
        num_tokens: Number of tokens fed to the model, padding not counted.
        max_tokens: Most tokens that one forward pass could take.
        rollout_tokens: Number of tokens fed for each rollout; they add up to `num_tokens`. Tokens
            that several rollouts share count for the first of them.
    """

    answer_logps: Float[Tensor, "B S H"]
    state_mask: Bool[Tensor, "B S"]
    hypothesis_mask: Bool[Tensor, "B H"]
    completion_logps: Float[Tensor, "B C"]
    num_tokens: int
    max_tokens: int
    rollout_tokens: Sequence[int] = ()


@torch.no_grad()
def answer_log_likelihoods(
    model: nn.Module,
    rollouts: Sequence[Rollout],
    *,
    elicitation_ids: Sequence[int],
    reduction: Literal["mean", "sum", "token_mean"] = "mean",
    method: Literal["shared_prefix", "reencode"] = "shared_prefix",
    temperature: float = 1.0,
    completion_temperature: float = 1.0,
    max_tokens: int | None = None,
) -> AnswerLogLikelihoods:
    r"""Compute the log-likelihood of every hypothesis's answer at every state.

    It is the logarithm of the paper's plausibility. With `reduction="sum"` it is

    $$\ell_i(t) = \sum_j \log \pi(y_{i,j} \mid s_t, e, y_{i,<j})$$

    over the scored tokens j of the answer $y_i$ after the state $s_t$ and the elicitation e.

    The model runs in evaluation mode and is left as it was, also after an exception. Where
    parameters are sharded (FSDP, ZeRO-3), all processes must call this together, each with its own
    rollouts or with none.

    Args:
        model: A causal language model of transformers, wrapped or not.
        rollouts: The rollouts to score. One without answers and without scored tokens of its own is
            not fed to the model.
        elicitation_ids: Token ids between state and answer, for rollouts without
            `state_elicitations`.
        reduction: `"sum"` or `"mean"` of the log-probabilities of an answer's scored tokens, or
            `"token_mean"`: the logarithm of the mean of their probabilities.
        method: `"shared_prefix"` feeds a rollout once, `"reencode"` once per state and answer. A
            model for which shared prefixes are not exact is re-encoded, with one warning that says
            why.
        temperature: Divides the logits of the answers' tokens.
        completion_temperature: Divides the logits of the rollouts' own scored tokens.
        max_tokens: Most tokens of one forward pass, padding included; a longer row is fed alone.
            By default as many as fit into memory (`budget`). The number is halved whenever memory
            runs out. Where parameters are sharded, all processes halve it alike, before one of them
            takes more than half of the free memory.

    Returns:
        The log-likelihoods in float32 on the device that the model computes on, with masks.

    Raises:
        ValueError: If an argument breaks these rules, or the model's table of positions is too
            short for a rollout with elicitation and answer.
        torch.OutOfMemoryError: If halving does not help, or if memory runs out in a forward pass
            with sharded parameters: the other processes wait in that pass, so that it cannot be
            repeated.
    """
    if reduction not in ("mean", "sum", "token_mean"):
        raise ValueError(
            f"reduction must be mean, sum or token_mean, got {reduction!r}: the default is mean."
        )
    if method not in ("shared_prefix", "reencode"):
        raise ValueError(f"method must be shared_prefix or reencode, got {method!r}: choose one.")
    temperatures = {"temperature": temperature, "completion_temperature": completion_temperature}
    for name, value in temperatures.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value}: 1 samples as trained.")
    # Without gradients DDP has nothing to do, yet its forward waits for the other processes.
    model = model.module if isinstance(model, DistributedDataParallel) else model
    most = table_positions(model)
    needed = max((rollout.num_positions(elicitation_ids) for rollout in rollouts), default=0)
    if most is not None and needed > most:
        raise ValueError(
            f"rollouts must need at most {most} positions, got {needed} with elicitation and "
            f"answer: lower max_completion_length by {needed - most}, or shorten the prompts."
        )
    max_tokens = halved_together(model, max_tokens or scoring_token_budget(model))
    rows: list[Row] = []
    with evaluating(model):
        while True:
            try:
                feeding = choose_feeding(model, rollouts, elicitation_ids, method, max_tokens)
                rows = build_rows(rollouts, elicitation_ids, feeding.layout, max_tokens)
                scored = token_logps(model, rollouts, rows, feeding, max_tokens, **temperatures)
                break
            except torch.OutOfMemoryError as error:
                if is_sharded(model) or max_tokens <= MIN_TOKENS:
                    advice = f"set scoring_max_tokens below {max_tokens}, or max_completion_length"
                    message = f"{error} While scoring answers: {advice}."
                    raise torch.OutOfMemoryError(message) from error
            # after the handler, in which the error would keep the failed pass's tensors alive
            max_tokens = min(max_tokens, sum(row.size for row in rows) or max_tokens) // 2
            logger.warning(MEMORY_IS_SHORT, max_tokens)
    counts = [0] * len(rollouts)
    for block in (block for row in rows for block in row.blocks):
        counts[block.rollout] += block.stop - block.start
    answers, own = scored
    return AnswerLogLikelihoods(
        *_reduced(rollouts, answers, reduction), own, sum(counts), max_tokens, counts
    )


def _reduced(
    rollouts: Sequence[Rollout], logps: Float[Tensor, "B S H L"], reduction: str
) -> tuple[Float[Tensor, "B S H"], Bool[Tensor, "B S"], Bool[Tensor, "B H"]]:
    """Return the log-likelihoods of answers, and masks of what exists; 0 in padding."""
    states = np.zeros(logps.shape[:2], dtype=bool)
    tokens = np.zeros((len(rollouts), *logps.shape[2:]), dtype=bool)
    for i, rollout in enumerate(rollouts):
        states[i, : len(rollout.state_positions)] = True
        for hypothesis, answer in enumerate(rollout.answers):
            tokens[i, hypothesis, answer.score_from : len(answer.token_ids)] = True
    state_mask, is_scored = (torch.from_numpy(m).to(logps.device) for m in (states, tokens))
    hypothesis_mask = is_scored.any(-1)
    number = is_scored.sum(-1).clamp(min=1)[:, None]
    if reduction == "token_mean":
        total = logps.masked_fill(~is_scored[:, None], -torch.inf).logsumexp(-1)
        exists = state_mask[..., None] & hypothesis_mask[:, None]
        answer_logps = torch.where(exists, total - number.log(), 0.0)
    else:
        answer_logps = logps.sum(-1) / (number if reduction == "mean" else 1)
    return answer_logps, state_mask, hypothesis_mask
