r"""What the weights do: how far they are those of plain RL, and what the belief makes of them.

Where a rollout ends with its answer, the plausibility at the last state is 1 for that answer and 0
for all others, and the value of a step is

$$V(t) = v + w_{own}(t) - \sum_i w_i(t) \, p_i(t)$$

The sum belongs to the state, not to what follows: it is a baseline. A right rollout and one that
answers $y_j$ differ by the outcome gain $1 + w_0(t) - w_j(t)$, where plain RL has 1
(docs/credit.md).
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

WORKS_AGAINST = 0.7
"""Outcome gain below which the belief takes much of the signal away."""

_EQUALS_PLAIN_RL = 0.1
"""Distance from 1 of the outcome gain and of R², and spread of the gain: less changes nothing."""


def weight_moments(
    weights: Float[Tensor, "batch token"],
    outcomes: Float[Tensor, " batch"],
    mask: Bool[Tensor, "batch token"],
    groups: Int[Tensor, " batch"],
    *,
    num_groups: int,
) -> Float[Tensor, "group 6"]:
    """Return count and sums of V, v, V², v², V v of each group's tokens that have a weight.

    Add those of all processes up before [`weight_shares`]. The weights V are those before
    whitening, the outcomes v may be NaN where no token has a weight. Results are float64.
    """
    value = weights.double().masked_fill(~mask, 0.0)
    outcome = outcomes.double()[:, None].expand_as(value).masked_fill(~mask, 0.0)
    columns = (mask.double(), value, outcome, value**2, outcome**2, value * outcome)
    rows = torch.stack([column.sum(dim=1) for column in columns], dim=1)
    return rows.new_zeros(num_groups, 6).index_add_(0, groups, rows)


def weight_shares(moments: Float[Tensor, "group 6"]) -> dict[str, float]:
    """Compare the weights with the outcomes inside prompts.

    Args:
        moments: What [`weight_moments`] returns, of all processes.

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
    """Return count, sum and sum of squares of `1 + w_0(t) - w_j(t)` over steps of wrong rollouts.

    Add those of all processes up before [`mean_and_spread`].

    Args:
        belief: The posterior w, 0 where padded.
        members: Hypothesis j that each rollout answers; None without one, 0 where it is right.
        state_mask: The states that exist. Each but the last begins a step.
    """
    if not belief.shape[2]:  # no answer was scored
        return belief.new_zeros(3).double()
    own = torch.tensor([member or 0 for member in members], device=belief.device)
    gains = 1 + belief[..., 0] - belief.take_along_dim(own[:, None, None], dim=-1)[..., 0]
    found = gains[:, :-1][state_mask[:, 1:] & (own > 0)[:, None]].double()
    return torch.stack([torch.full_like(found, 1).sum(), found.sum(), found.square().sum()])


def mean_and_spread(totals: Float[Tensor, "3"]) -> tuple[float, float]:
    """Return mean and standard deviation from count, sum and sum of squares; NaN of none."""
    count, total, squares = totals.tolist()
    if not count:
        return torch.nan, torch.nan
    mean = total / count
    return mean, max(0.0, squares / count - mean**2) ** 0.5


def advice(gain: float, spread: float, outcome_r2: float, *, consistency_beta: float) -> str | None:
    """Say that the belief works against the outcome, or changes nothing, and what helps.

    Args:
        gain: Mean outcome gain; NaN if unknown.
        spread: Its standard deviation.
        outcome_r2: As [`weight_shares`] returns it.
        consistency_beta: The setting.
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
