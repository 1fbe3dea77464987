"""A critic that is fitted to the belief, and generalised advantage estimation with it."""

import torch
from jaxtyping import Float
from torch import Tensor

from ..posterior import StepValues
from .gae import advantages
from .rollouts import ScoredRollouts, at_last_state, group_sums

RIDGE = 1.0
"""Penalty on the squared coefficient of the belief, in units of one state."""


def belief_critic(
    rollouts: ScoredRollouts, *, gae_lambda: float = 0.7, bootstrap_cut_off: bool = True
) -> StepValues:
    r"""Take [`advantages`] with the critic $V(t) = a + b \, p_0(t)$, fitted to the outcomes.

    In a Bayes-adaptive MDP the value depends on state and belief, and scoring yields the belief.
    The outcomes of the batch's other prompts are regressed on p_0 at all their states, so that no
    rollout sees its own outcome. Where the belief says nothing, the critic is the mean outcome of
    the other prompts; with one prompt it is 0.

    With `bootstrap_cut_off` a rollout that was cut off is worth the critic's value at its end: the
    length limit belongs to training, not to the task (arXiv 1712.00378). Without it, and with
    `gae_lambda=1`, the gradient is unbiased for the task with the limit. It needs the truth and the
    outcome.
    """
    critic = fitted_critic(rollouts.truth_plausibility, rollouts)
    ends = rollouts.outcomes
    if bootstrap_cut_off:
        last = at_last_state(critic, rollouts.state_mask)
        ends = torch.where(rollouts.is_cut_off, last, ends)
    return advantages(critic, ends, rollouts.state_mask, gae_lambda)


def fitted_critic(
    feature: Float[Tensor, "batch state"], rollouts: ScoredRollouts
) -> Float[Tensor, "batch state"]:
    """Regress the outcomes on a feature of the states, for each prompt on all other prompts.

    The fit is by least squares over states, with a penalty [`RIDGE`] on the slope. It is 0 in
    padding.
    """
    exists = (rollouts.state_mask & rollouts.is_judged[:, None]).double()
    x, v = feature.double() * exists, rollouts.outcomes.double()[:, None] * exists
    sums = torch.stack([exists, x, v, x * x, x * v], dim=-1).sum(dim=1)
    count, x_, v_, xx, xv = (sums.sum(dim=0) - group_sums(sums, rollouts.groups)).unbind(dim=1)
    number = count.clamp(min=1)
    slope = (xv - x_ * v_ / number) / (xx - x_ * x_ / number + RIDGE)
    intercept = (v_ - slope * x_) / number
    fitted = intercept[:, None] + slope[:, None] * feature.double()
    return (fitted * rollouts.state_mask).to(feature.dtype)
