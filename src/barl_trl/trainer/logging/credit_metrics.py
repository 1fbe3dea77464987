r"""Metrics of the weights: how near they are to those of plain RL, and what the belief changes.

Where a rollout ends with its answer, the plausibility at the last state is 1 for that answer and 0
for all others, and the value of a step is

$$V(t) = v + w_{own}(t) - \sum_i w_i(t) \, p_i(t)$$

Here v is the outcome, w the posterior, p the plausibility, and "own" the rollout's own answer. The
sum depends only on the state, not on the tokens after it, so it is a baseline. The values of a
right rollout and of one that answers $y_j$ differ by the outcome gain $1 + w_0(t) - w_j(t)$. Plain
RL has the outcome gain 1 (docs/credit.md).
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ...credit.rollouts import ScoredRollouts
from ...credit.token_weights import TokenWeights

WORKS_AGAINST = 0.7
"""Outcome gain below which the belief takes away much of the signal."""

_EQUALS_PLAIN_RL = 0.1
"""The weights are nearly those of plain RL if the outcome gain and R² are nearer to 1 than this,
and the spread of the gain is less than this."""


def credit_metrics(
    rollouts: ScoredRollouts,
    weighed: TokenWeights,
    outcomes: Float[Tensor, " batch"],
    *,
    num_groups: int,
    sum_over_processes: Callable[[Tensor], Any],
) -> dict[str, float]:
    """Compare the token weights V before whitening with the outcomes v.

    Args:
        rollouts: The scored rollouts of this process.
        weighed: Their step values and token weights.
        outcomes: Their outcome rewards v. They may be NaN where no token has a weight.
        num_groups: Number of groups of all processes.
        sum_over_processes: A tensor of this process -> its sum over all processes.

    Returns:
        `outcome_r2`: R² of V with v inside prompts; NaN if either is constant there.
        `value_between_prompts`: the share of the variance of V that lies between prompts, where it
        prefers no rollout of a prompt to another. `outcome_gain` and `outcome_gain_spread`: mean
        and standard deviation of the outcome gain over the steps of wrong rollouts; NaN without
        any.
    """
    moments, gains = _weight_moments(rollouts, weighed, outcomes, num_groups), _gains(rollouts)
    totals = sum_over_processes(torch.cat([moments.flatten(), gains]))
    count, gain, square = totals[-3:].tolist()
    mean = spread = torch.nan
    if count:
        mean = gain / count
        spread = max(0.0, square / count - mean**2) ** 0.5
    shares = _weight_shares(totals[:-3].reshape(-1, 6))
    return shares | {"outcome_gain": mean, "outcome_gain_spread": spread}


def _weight_moments(
    rollouts: ScoredRollouts,
    weighed: TokenWeights,
    outcomes: Float[Tensor, " batch"],
    num_groups: int,
) -> Float[Tensor, "group 6"]:
    """Return each group's number of tokens and sums of V, v, V², v² and V v, in float64."""
    mask = weighed.mask
    value = weighed.unwhitened.double().masked_fill(~mask, 0.0)
    outcome = outcomes.double()[:, None].expand_as(value).masked_fill(~mask, 0.0)
    columns = (mask.double(), value, outcome, value**2, outcome**2, value * outcome)
    moments = torch.stack([column.sum(dim=1) for column in columns], dim=1)
    return moments.new_zeros(num_groups, 6).index_add_(0, rollouts.groups, moments)


def _weight_shares(moments: Float[Tensor, "group 6"]) -> dict[str, float]:
    count, value, outcome, values, outcomes, both = moments[moments[:, 0] > 0].unbind(dim=1)
    total = values.sum() - value.sum() ** 2 / count.sum()
    of_values = (values - value**2 / count).clamp(min=0)
    of_outcomes = (outcomes - outcome**2 / count).clamp(min=0)
    shared = (both - value * outcome / count).sum()
    is_tied = (of_outcomes <= 1e-9 * outcomes.clamp(min=1)).all()
    is_constant = is_tied or of_values.sum() <= 1e-9 * values.sum()
    r2 = shared**2 / (of_values.sum() * of_outcomes.sum())
    return {
        "outcome_r2": torch.nan if is_constant else r2.item(),
        "value_between_prompts": (1 - of_values.sum() / total).item() if total > 0 else torch.nan,
    }


def _gains(rollouts: ScoredRollouts) -> Float[Tensor, "3"]:
    """Return the number, sum and sum of squares of the outcome gains `1 + w_0(t) - w_j(t)`.

    They are those of the steps of rollouts that answer a wrong hypothesis j, in float64.
    """
    belief = rollouts.belief
    if not belief.shape[2]:  # no answer was scored
        return belief.new_zeros(3).double()
    answered = torch.tensor([member or 0 for member in rollouts.members], device=belief.device)
    gains = 1 + belief[..., 0] - belief.take_along_dim(answered[:, None, None], dim=-1)[..., 0]
    gains = gains[:, :-1][rollouts.step_mask & (answered > 0)[:, None]].double()
    return torch.stack([torch.full_like(gains, 1).sum(), gains.sum(), gains.square().sum()])


def advice(gain: float, spread: float, outcome_r2: float, *, consistency_beta: float) -> str | None:
    """Return advice if the belief works against the outcome, or changes nothing; else None.

    Args:
        gain: Mean outcome gain; NaN if unknown.
        spread: Standard deviation of the outcome gain.
        outcome_r2: R² of the weights with the outcomes inside prompts.
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
