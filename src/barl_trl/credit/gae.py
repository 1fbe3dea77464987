"""Generalised advantage estimation over reasoning steps, with the belief as the critic."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..posterior import StepValues
from .rollouts import ScoredRollouts, at_last_state, differences


def gae(rollouts: ScoredRollouts, *, gae_lambda: float = 1.0) -> StepValues:
    r"""Take [`advantages`] with the plausibility p_0 of the truth as the critic.

    It needs the truth and the outcome.
    """
    critic = rollouts.truth_plausibility
    return advantages(critic, rollouts.outcomes, rollouts.state_mask, gae_lambda)


def gae_posterior(rollouts: ScoredRollouts, *, gae_lambda: float = 1.0) -> StepValues:
    r"""Take [`advantages`] with the belief w_0 in the truth as the critic.

    It needs all hypotheses and the outcome.
    """
    critic = rollouts.belief[..., 0]
    return advantages(critic, rollouts.outcomes, rollouts.state_mask, gae_lambda)


def advantages(
    critic: Float[Tensor, "batch state"],
    ends: Float[Tensor, " batch"],
    state_mask: Bool[Tensor, "batch state"],
    gae_lambda: float,
    *,
    rewards: Float[Tensor, "batch step"] | None = None,
    gamma: float = 1.0,
) -> StepValues:
    r"""Sum the changes of the critic's value from a step on, and what the outcome adds at the end:

    $$A(t) = \sum_{k=t}^{T-1} (\gamma \lambda)^{k-t} (r_k + \gamma V(k+1) - V(k))
    + (\gamma \lambda)^{T-t} (v - V(T))$$

    arXiv 1506.02438. With discount 1 and without rewards of steps, lambda 1 is `v - V(t)`, unbiased
    whatever the critic; lambda 0 believes the critic alone. The end of the turn gets `v - V(T)`.

    Args:
        critic: Value of each state.
        ends: Value v of each rollout at its end: its outcome.
        state_mask: The states that exist.
        gae_lambda: From 0 to 1.
        rewards: Reward r_k of each step; None: there is none.
        gamma: Discount per step, from 0 to 1.
    """
    step_mask = state_mask[:, 1:]
    changes = differences(critic, step_mask)
    if rewards is not None:
        changes = changes + rewards + (gamma - 1) * critic[:, 1:]
    closing = ends - at_last_state(critic, state_mask)
    advantage, decay, steps = closing, gamma * gae_lambda, []
    for t in reversed(range(changes.shape[1])):
        advantage = torch.where(step_mask[:, t], changes[:, t] + decay * advantage, advantage)
        steps.append(advantage)
    stacked = torch.stack(steps[::-1], dim=1) if steps else changes
    return StepValues(stacked * step_mask, closing)
