r"""Rewards of turns: each step gets what it earned, or what was earned from it on."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ..posterior import StepValues
from .bayes import belief_entropy
from .belief_critic import fitted_critic
from .gae import advantages
from .rollouts import ScoredRollouts


def turns(
    rollouts: ScoredRollouts,
    *,
    turn_return: Literal["to_go", "own", "gae"] = "to_go",
    turn_gamma: float = 1.0,
    gae_lambda: float = 0.95,
) -> StepValues:
    r"""Give each step the rewards from it on, or its own, and the outcome v:

    $$V(t) = \sum_{k=t}^{T-1} \gamma^{k-t} r_k + v \;\; \text{(to\_go)}, \qquad
    V(t) = r_t + v \;\; \text{(own)}$$

    r_t are the rollouts' `turn_rewards`. The return-to-go is that of policy gradients (Sutton and
    Barto, 2nd edition, section 13.3), which leaves the gradient unbiased for the sum of all rewards
    where $\gamma$ is 1. `own` trusts each reward to judge its step: what a step makes possible
    later does not count. `gae` is [`advantages`] with a critic that is fitted to the discounted
    returns of the batch's other prompts, where v counts as a reward at the end; its features are
    the share of steps used, its square, the rewards so far and, if there is a belief, its entropy
    and largest mass. It needs no truth and no hypotheses; without rewards of turns it is the
    outcome. `turn_gamma` is the discount per step, $\gamma$. What ends the last turn is a part of
    it: it gets that turn's value.
    """
    rewards, number = rollouts.step_rewards, rollouts.step_mask.sum(dim=1)
    v = rollouts.outcomes + rollouts.last_rewards.where(number == 0, 0.0)  # a turn without words
    if turn_return == "gae":
        at_end = torch.nn.functional.pad(rewards, (0, 1))
        at_end[torch.arange(len(v), device=v.device), number] = v
        critic = fitted_critic(_features(rollouts), to_go(at_end, turn_gamma), rollouts)
        known = {"rewards": rewards, "gamma": turn_gamma}
        values = advantages(critic, v, rollouts.state_mask, gae_lambda, **known)
    else:
        earned = to_go(rewards, turn_gamma) if turn_return == "to_go" else rewards
        values = StepValues((earned + v[:, None]) * rollouts.step_mask, v)
    if rollouts.turn_rewards is None or not rewards.numel():
        return values
    last = values.steps.gather(1, (number - 1).clamp(min=0)[:, None])[:, 0]
    return values._replace(closing=last.where(number > 0, values.closing))


def to_go(rewards: Float[Tensor, "batch step"], gamma: float = 1.0) -> Float[Tensor, "batch step"]:
    r"""Return $\sum_{k \ge t} \gamma^{k-t} r_k$ of each step t."""
    total, sums = rewards.new_zeros(len(rewards)), []
    for t in reversed(range(rewards.shape[1])):
        total = rewards[:, t] + gamma * total
        sums.append(total)
    return torch.stack(sums[::-1], dim=1) if sums else rewards


def with_turn_rewards(values: StepValues, rollouts: ScoredRollouts) -> StepValues:
    """Add the rewards of turns from each step on to the values of a credit that does not read them.

    The paper's Q is such a sum of the steps' rewards and the outcome, eq. (def_q_m). What ends the
    last turn is a part of it: it gets that turn's reward, too.
    """
    if rollouts.turn_rewards is None:
        return values
    steps, closing = to_go(rollouts.step_rewards), rollouts.last_rewards
    return StepValues(values.steps + steps, values.closing + closing)


def _features(rollouts: ScoredRollouts) -> Float[Tensor, "batch state feature"]:
    """Return what the critic knows of each state; 0 in padding."""
    exists, rewards = rollouts.state_mask, rollouts.step_rewards
    used = torch.arange(exists.shape[1], device=exists.device, dtype=rewards.dtype)
    most = (rollouts.step_mask & rollouts.is_judged[:, None]).sum(dim=1).amax().clamp(min=1)
    used = (used / most).expand(exists.shape)
    so_far = torch.nn.functional.pad(rewards.cumsum(dim=1), (1, 0))
    features = [used, used**2, so_far]
    if rollouts.hypothesis_mask.shape[1] > 1:
        features += [belief_entropy(rollouts), rollouts.belief.amax(dim=-1)]
    return torch.stack([one.to(rewards.dtype) for one in features], dim=-1) * exists[..., None]
