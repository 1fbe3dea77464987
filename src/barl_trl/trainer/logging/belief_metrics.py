"""Metrics of the beliefs of a rollout batch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...credit.rollouts import ScoredRollouts
from ...credit.token_weights import TokenWeights
from ...posterior import discrepancy


def belief_metrics(
    rollouts: ScoredRollouts, weighed: TokenWeights, *, gather: Callable[[Tensor], Any]
) -> dict[str, float]:
    """Average beliefs and values over the rollouts of all processes that have tokens with a weight.

    Args:
        rollouts: The scored rollouts of this process, with at least one hypothesis.
        weighed: Their step values and token weights.
        gather: A tensor of this process -> the tensors of all processes, joined along the first
            dimension.

    Returns:
        Metric name -> its mean, NaN where no rollout defines it: `value` of the steps before
        whitening; `posterior_entropy` in nats and `truth_mass`, both means over the states;
        `belief_shift`, the total variation between the beliefs at the first and the last state,
        from 0 to 1; `discrepancy` of the wrong hypotheses at the last state.
    """
    belief, state_mask = rollouts.belief, rollouts.state_mask
    num_states = state_mask.sum(dim=1)
    entropy = torch.special.entr(belief).sum(dim=-1).sum(dim=1) / num_states
    truth = belief[..., :1].sum(dim=(1, 2)) / num_states
    # the discrepancy never decreases, and is 0 in padded states
    of_states = discrepancy(rollouts.answer_logps, state_mask=state_mask)
    last_discrepancy = of_states.amax(dim=1)[:, 1:]
    wrong = rollouts.hypothesis_mask[:, 1:]
    last_belief = belief.take_along_dim(num_states.sub(1)[:, None, None], dim=1)[:, 0]
    shift = (last_belief - belief[:, 0]).abs().sum(dim=-1) / 2
    can_move = (num_states > 1) & wrong.any(dim=1)  # a single hypothesis always has the mass 1
    columns = {
        "value": weighed.values.sum(dim=1) / (num_states - 1),
        "posterior_entropy": entropy,
        "truth_mass": truth,
        "belief_shift": shift.where(can_move, torch.nan),
        "discrepancy": torch.where(wrong, last_discrepancy, 0.0).sum(dim=1) / wrong.sum(dim=1),
    }
    is_weighed = weighed.mask.any(dim=1)
    local = torch.stack([*columns.values()], dim=1).masked_fill(~is_weighed[:, None], torch.nan)
    gathered = gather(local).unbind(dim=1)
    return {n: column.nanmean().item() for n, column in zip(columns, gathered, strict=True)}
