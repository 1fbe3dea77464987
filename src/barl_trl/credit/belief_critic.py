"""A critic that is fitted to the belief, and generalised advantage estimation with it."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from ..posterior import StepValues
from .bayes import belief_entropy, expected_outcomes
from .gae import advantages
from .rollouts import ScoredRollouts, at_last_state, group_sums

_RIDGE = 1.0
"""Penalty on the squared coefficient of the belief, in units of one state."""


def belief_critic(
    rollouts: ScoredRollouts,
    *,
    gae_lambda: float = 0.7,
    bootstrap_cut_off: bool = True,
    belief: str = "model",
) -> StepValues:
    r"""Take [`advantages`] with the critic $V(t) = a + b \, p_0(t)$, fitted to the outcomes.

    In a Bayes-adaptive MDP the value depends on state and belief, and scoring yields the belief.
    The outcomes of the batch's other prompts are regressed on p_0 at all their states, so that no
    rollout sees its own outcome. Where the belief says nothing, the critic is the mean outcome of
    the other prompts; with one prompt it is 0.

    With `bootstrap_cut_off` a rollout that was cut off is worth the critic's value at its end: the
    length limit belongs to training, not to the task (arXiv 1712.00378). Without it, and with
    `gae_lambda=1`, the gradient is unbiased for the task with the limit.

    Where the task has a part in the belief (`belief` is `"task"` or `"both"`), the features are the
    belief in the truth, the largest belief and its entropy, and the critic is fitted to the outcome
    expected under the last belief ([`expected_outcomes`]), which also is the value of the end. It
    needs the truth and the outcome.
    """
    if belief == "model":
        features, ends = rollouts.truth_plausibility[..., None], rollouts.outcomes
    else:
        w = rollouts.belief
        features = torch.stack([w[..., 0], w.amax(dim=-1), belief_entropy(rollouts)], dim=-1)
        ends = expected_outcomes(rollouts)
    critic = fitted_critic(features, ends[:, None].expand(features.shape[:2]), rollouts)
    if bootstrap_cut_off:
        last = at_last_state(critic, rollouts.state_mask)
        ends = torch.where(rollouts.is_cut_off, last, ends)
    return advantages(critic, ends, rollouts.state_mask, gae_lambda)


def fitted_critic(
    features: Float[Tensor, "batch state feature"],
    returns: Float[Tensor, "batch state"],
    rollouts: ScoredRollouts,
) -> Float[Tensor, "batch state"]:
    """Regress returns on features of the states, for each prompt on all other prompts.

    The fit is by least squares over states, with a ridge penalty of 1 on the slopes. It is 0 in
    padding.

    Args:
        features: Features of each state.
        returns: What the rollout earned from each state on.
        rollouts: The rollouts.
    """
    exists = (rollouts.state_mask & rollouts.is_judged[:, None]).double()[..., None]
    x, v = features.double() * exists, returns.double()[..., None] * exists
    products = x[..., :, None] * x[..., None, :]

    def of_others(values: Float[Tensor, "batch state *rest"]) -> Float[Tensor, "batch *rest"]:
        sums = values.sum(dim=1)
        return sums.sum(dim=0) - group_sums(sums, rollouts.groups)

    number = of_others(exists).clamp(min=1)
    x_, v_, xx, xv = of_others(x), of_others(v), of_others(products), of_others(x * v)
    penalty = _RIDGE * torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    covariance = xx - x_[:, :, None] * x_[:, None] / number[..., None] + penalty
    slopes = torch.linalg.solve(covariance, xv - x_ * v_ / number)
    intercept = (v_ - (slopes * x_).sum(dim=1, keepdim=True)) / number
    fitted = intercept + (features.double() @ slopes[..., None])[..., 0]
    return (fitted * rollouts.state_mask).to(features.dtype)


def belief_features(rollouts: ScoredRollouts) -> Float[Tensor, "batch state feature"]:
    """Return what a baseline reads of the belief at each state.

    It is the entropy, the largest mass, the number of the state in tens, their squares, and the
    products of that number with the others. Rollouts without hypotheses have the number alone.
    """
    largest = pad(rollouts.belief, (0, 1)).amax(dim=-1)
    number = torch.arange(largest.shape[1], device=largest.device).to(largest) / 10
    known = torch.stack([belief_entropy(rollouts), largest, number.expand_as(largest)], dim=-1)
    return torch.cat([known, known**2, known[..., :2] * known[..., 2:]], dim=-1)
