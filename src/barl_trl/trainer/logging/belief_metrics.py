"""Metrics of a rollout batch: its beliefs, how values differ inside groups, and the share of tokens
whose importance ratio was clipped.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...posterior import discrepancy


class _RolloutDiagnostics(NamedTuple):
    """Diagnostics of each rollout, each of shape (batch,), NaN where undefined."""

    value: Tensor
    """Mean posterior-weighted value of the steps, before whitening."""
    posterior_entropy: Tensor
    """Mean entropy of the belief over the states, in nats."""
    truth_mass: Tensor
    """Mean posterior mass on the ground truth over the states."""
    belief_shift: Tensor
    """Total variation between the beliefs at the first and the last state, from 0 to 1."""
    discrepancy: Tensor
    """Mean discrepancy of the wrong hypotheses at the last state."""


def rollout_diagnostics(
    belief: Float[Tensor, "batch state hypothesis"],
    answer_logps: Float[Tensor, "batch state hypothesis"],
    values: Float[Tensor, "batch step"],
    state_mask: Bool[Tensor, "batch state"],
    hypothesis_mask: Bool[Tensor, "batch hypothesis"],
    rewards: Float[Tensor, "batch step hypothesis"] | None = None,
) -> _RolloutDiagnostics:
    """Summarise each rollout's values and beliefs.

    Args:
        belief: The posterior, 0 where padded.
        answer_logps: Log-likelihood of each hypothesis's answer at each state, in nats.
        values: Posterior-weighted value of each step, 0 where padded.
        state_mask: True for each state that exists.
        hypothesis_mask: True for each hypothesis that exists. The first one is the truth.
        rewards: Rewards that each hypothesis predicts; None: the progress rewards.
    """
    num_states = state_mask.sum(dim=1)
    entropy = torch.special.entr(belief).sum(dim=-1).sum(dim=1) / num_states
    truth = belief[..., :1].sum(dim=(1, 2)) / num_states
    # the discrepancy never decreases, and is 0 in padded states
    last_discrepancy = discrepancy(answer_logps, rewards=rewards, state_mask=state_mask).amax(
        dim=1
    )[:, 1:]
    wrong = hypothesis_mask[:, 1:]
    last_belief = belief.take_along_dim(num_states.sub(1)[:, None, None], dim=1)[:, 0]
    shift = (last_belief - belief[:, 0]).abs().sum(dim=-1) / 2
    can_move = (num_states > 1) & wrong.any(dim=1)  # a single hypothesis always has the mass 1
    return _RolloutDiagnostics(
        value=values.sum(dim=1) / (num_states - 1),
        posterior_entropy=entropy,
        truth_mass=truth,
        belief_shift=shift.where(can_move, torch.nan),
        discrepancy=torch.where(wrong, last_discrepancy, 0.0).sum(dim=1) / wrong.sum(dim=1),
    )


def value_spread(
    values: Float[Tensor, " rollout"], outcomes: Float[Tensor, " rollout"], *, group_size: int
) -> float:
    """Measure how values differ inside the groups whose outcomes are all equal.

    GRPO has no signal in these groups.

    Args:
        values: Mean value of each rollout's steps; rollouts without a value (NaN) are left out.
        outcomes: Outcome reward of each rollout.
        group_size: Rollouts per prompt.

    Returns:
        The standard deviation of the values inside a group, averaged over those groups; NaN if
        there are none.
    """
    values, outcomes = values.reshape(-1, group_size), outcomes.reshape(-1, group_size)
    equal = (outcomes == outcomes[:, :1]).all(dim=1)
    if not equal.any():
        return torch.nan
    deviations = values[equal] - values[equal].nanmean(dim=1, keepdim=True)
    return deviations.square().nanmean(dim=1).sqrt().nanmean().item()


def belief_metrics(
    diagnostics: _RolloutDiagnostics,
    is_weighed: Bool[Tensor, " batch"],
    outcomes: Float[Tensor, " rollout"],
    *,
    group_size: int,
    gather: Callable[[Tensor], Any],
) -> dict[str, float]:
    """Average diagnostics over the rollouts of all processes, for the log.

    Args:
        diagnostics: The diagnostics of this process's rollouts.
        is_weighed: True for each rollout that has tokens with a weight; others are left out.
        outcomes: Outcome rewards of all processes' rollouts.
        group_size: Rollouts per prompt.
        gather: A tensor of this process -> the tensors of all processes, joined along the first
            dimension.

    Returns:
        Metric name -> its mean.
    """
    columns = gather(torch.stack(diagnostics, dim=1).masked_fill(~is_weighed[:, None], torch.nan))
    gathered = _RolloutDiagnostics(*columns.unbind(dim=1))
    metrics = {name: column.nanmean().item() for name, column in gathered._asdict().items()}
    metrics["value_spread_equal_outcome"] = value_spread(
        gathered.value, outcomes, group_size=group_size
    )
    return metrics


def clipped_tokens(
    ratio: Float[Tensor, "batch #token"],
    mask: Bool[Tensor, "batch token"],
    *,
    mode: str,
    clip_min: float | None,
    clip_max: float | None,
) -> Int[Tensor, "2"]:
    """Count the tokens whose importance ratio was truncated or masked, and all tokens.

    Args:
        ratio: Importance ratios after truncation or masking, one per token or one per sequence.
        mask: True for each token that counts.
        mode: With `"token_truncate"` or `"sequence_truncate"`, ratios beyond a bound became that
            bound. With `"token_mask"` or `"sequence_mask"`, they became 0.
        clip_min: The lower bound; None without one.
        clip_max: The upper bound; None without one.

    Returns:
        The number of clipped tokens, and the number of tokens that count.
    """
    bounds = [0.0] if mode.endswith("mask") else [b for b in (clip_min, clip_max) if b is not None]
    is_clipped = torch.isin(ratio, ratio.new_tensor(bounds))
    return torch.stack([(is_clipped & mask).sum(), mask.sum()])
