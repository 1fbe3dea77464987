r"""Metrics of the weights: how near they are to those of plain RL, and what the belief changes.

Where a rollout ends with its answer, the plausibility at the last state is 1 for that answer and 0
for all others, and the value of a step is

$$V(t) = v + w_{own}(t) - \sum_i w_i(t) \, p_i(t)$$

Here v is the outcome, w the posterior, p the plausibility, and "own" the rollout's own answer. The
sum depends only on the state, not on the tokens after it, so it is a baseline. The values of a
right rollout and of one that answers $y_j$ differ by the outcome gain $1 + w_0(t) - w_j(t)$. Plain
RL has the outcome gain 1 (docs/credit.md).
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

WORKS_AGAINST = 0.7
"""Outcome gain below which the belief takes away much of the signal."""

_EQUALS_PLAIN_RL = 0.1
"""The weights are nearly those of plain RL if the outcome gain and R² are nearer to 1 than this,
and the spread of the gain is less than this."""


def weight_moments(
    weights: Float[Tensor, "batch token"],
    outcomes: Float[Tensor, " batch"],
    mask: Bool[Tensor, "batch token"],
    groups: Int[Tensor, " batch"],
    *,
    num_groups: int,
) -> Float[Tensor, "group 6"]:
    """Sum the moments of weights V and outcomes v over the tokens of each group.

    Add the moments of all processes before calling [`weight_shares`].

    Args:
        weights: The token weights V before whitening.
        outcomes: The outcome reward v of each rollout. It may be NaN where no token has a weight.
        mask: True for each token that has a weight.
        groups: Index of each rollout's group.
        num_groups: Number of groups of all processes.

    Returns:
        The number of tokens and the sums of V, v, V², v² and V v, in float64.
    """
    value = weights.double().masked_fill(~mask, 0.0)
    outcome = outcomes.double()[:, None].expand_as(value).masked_fill(~mask, 0.0)
    columns = (mask.double(), value, outcome, value**2, outcome**2, value * outcome)
    moments = torch.stack([column.sum(dim=1) for column in columns], dim=1)
    return moments.new_zeros(num_groups, 6).index_add_(0, groups, moments)


def weight_shares(moments: Float[Tensor, "group 6"]) -> dict[str, float]:
    """Compare the weights with the outcomes inside prompts.

    Args:
        moments: What [`weight_moments`] returns, summed over all processes.

    Returns:
        `outcome_r2`: R² of V with v inside prompts; NaN if either is constant there.
        `value_between_prompts`: the share of the variance of V that lies between prompts, where it
        prefers no rollout of a prompt to another. `tied_groups`: the share of prompts whose
        rollouts all have the same outcome.
    """
    count, value, outcome, values, outcomes, both = moments[moments[:, 0] > 0].unbind(dim=1)
    total = values.sum() - value.sum() ** 2 / count.sum()
    of_values = (values - value**2 / count).clamp(min=0)
    of_outcomes = (outcomes - outcome**2 / count).clamp(min=0)
    shared = (both - value * outcome / count).sum()
    tied = of_outcomes <= 1e-9 * outcomes.clamp(min=1)
    is_constant = tied.all() or of_values.sum() <= 1e-9 * values.sum()
    r2 = shared**2 / (of_values.sum() * of_outcomes.sum())
    return {
        "outcome_r2": torch.nan if is_constant else r2.item(),
        "value_between_prompts": (1 - of_values.sum() / total).item() if total > 0 else torch.nan,
        "tied_groups": tied.double().mean().item(),
    }


def outcome_gains(
    belief: Float[Tensor, "batch state hypothesis"],
    members: Sequence[int | None],
    state_mask: Bool[Tensor, "batch state"],
) -> Float[Tensor, "3"]:
    """Sum the outcome gains `1 + w_0(t) - w_j(t)` over the steps of wrong rollouts.

    Add the sums of all processes before calling [`mean_and_spread`].

    Args:
        belief: The posterior w, 0 where padded.
        members: Index j of the hypothesis that each rollout answers: 0 if it is right, None if it
            answers no hypothesis.
        state_mask: True for each state that exists. Each state but the last begins a step.

    Returns:
        The number of gains, their sum and the sum of their squares, in float64.
    """
    if not belief.shape[2]:  # no answer was scored
        return belief.new_zeros(3).double()
    answered = torch.tensor([member or 0 for member in members], device=belief.device)
    gains = 1 + belief[..., 0] - belief.take_along_dim(answered[:, None, None], dim=-1)[..., 0]
    gains = gains[:, :-1][state_mask[:, 1:] & (answered > 0)[:, None]].double()
    return torch.stack([torch.full_like(gains, 1).sum(), gains.sum(), gains.square().sum()])


def mean_and_spread(totals: Float[Tensor, "3"]) -> tuple[float, float]:
    """Return the mean and the standard deviation; NaN for a count of 0.

    Args:
        totals: The count, the sum and the sum of squares.
    """
    count, total, squares = totals.tolist()
    if not count:
        return torch.nan, torch.nan
    mean = total / count
    return mean, max(0.0, squares / count - mean**2) ** 0.5


def advice(gain: float, spread: float, outcome_r2: float, *, consistency_beta: float) -> str | None:
    """Return advice if the belief works against the outcome, or changes nothing; else None.

    Args:
        gain: Mean outcome gain; NaN if unknown.
        spread: Standard deviation of the outcome gain.
        outcome_r2: R² of the weights with the outcomes, from [`weight_shares`].
        consistency_beta: The setting `consistency_beta`.
    """
    if gain < WORKS_AGAINST:
        helps = "credit='grpo'" if consistency_beta == torch.inf else "consistency_beta=inf"
        return (
            f"barl/outcome_gain is {gain:.2f}, where plain RL has 1: the belief favours wrong "
            f"answers and takes that much of the signal away. Try {helps}."
        )
    if all(gap < _EQUALS_PLAIN_RL for gap in (abs(gain - 1), spread, 1 - outcome_r2)):
        return (
            f"barl/outcome_gain is {gain:.2f} with a spread of {spread:.2f}: BARL's weights are "
            "nearly those of plain RL. credit='grpo' needs no scoring for that. Where rollouts are "
            "cut off, try credit='progress'."
        )
    return None
