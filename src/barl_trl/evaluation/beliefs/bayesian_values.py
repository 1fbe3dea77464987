r"""The Bayesian value of a reasoning step: how well a chain of thought explores and exploits.

It is not the value that weighs the policy gradient. Both values are expectations, over the belief,
of the sum of the remaining progress rewards and the outcome reward v. They differ in the belief:

| | belief about the reward of step t' >= t | |
|---|---|---|
| posterior-weighted value $V(t)$ | $w(t)$: frozen at the step that is judged | `posterior.py` |
| Bayesian value $B(t)$ | $w(t')$: updated at every step | [`bayesian_values`] |
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ...posterior import posterior, progress_rewards, values_under


def bayesian_values(
    answer_logps: Float[Tensor, "batch state hypothesis"],
    outcome_rewards: Float[Tensor, " batch"],
    *,
    beta: float,
    state_mask: Bool[Tensor, "batch state"] | None = None,
    hypothesis_mask: Bool[Tensor, "batch hypothesis"] | None = None,
) -> Float[Tensor, "batch step"]:
    r"""Compute the Bayesian state-action value of every step (the paper's "Effectiveness of CoTs").

    The steps of the rollout are taken as they are; no other continuation is sampled:

    $$B(t) = \sum_i w_i(t) \, r_i(t) + B(t+1), \qquad t = 0 \dots T-1, \qquad B(T) = v$$

    The posterior $w(t)$ is the belief $b_t$, $r_i(t)$ is the progress reward, and v is the outcome
    reward, which eq. (def_q_m) adds after the last step. The belief at t + 1 follows from the
    observed rewards. It is the same whichever hypothesis is drawn at t. With one hypothesis, both
    $B(t)$ and $V(t)$ telescope to the progress return $p_0(T) - p_0(t) + v$.

    Args:
        answer_logps: Log-likelihood of each answer at each state, in nats; hypothesis 0 is the
            ground truth.
        outcome_rewards: Outcome reward v of each rollout.
        beta: Consistency coefficient, from 0 to `inf`.
        state_mask: The states that exist. None: all.
        hypothesis_mask: The hypotheses that exist. None: all.

    Returns:
        Values B(t) in [v - (T - t), v + (T - t)], 0 in padding, detached from any graph.

    Raises:
        ValueError: Shapes do not fit, or an argument is out of its range.

    Example:
    ```python
    >>> p = torch.tensor([[[0.2, 0.6], [0.6, 0.2], [0.8, 0.2]]])  # found out in the first step
    >>> outcome_rewards = torch.tensor([1.0])
    >>> bayesian_values(p.log(), outcome_rewards, beta=float("inf"))  # .25 * .4 - .75 * .4 + 1.2
    tensor([[1.0000, 1.2000]])

    ```
    """
    with torch.no_grad():
        belief = posterior(
            answer_logps, beta=beta, state_mask=state_mask, hypothesis_mask=hypothesis_mask
        )
        closing = values_under(belief, answer_logps, outcome_rewards, state_mask=state_mask).closing
        belief = belief[:, :-1]
        rewards = progress_rewards(answer_logps, state_mask=state_mask)
        # a hypothesis that is not believed adds nothing, also where its reward is undefined
        expected = torch.where(belief > 0, belief * rewards, 0.0).sum(dim=-1)
        returns = expected.flip(1).cumsum(dim=1).flip(1) + closing[:, None]
        return returns if state_mask is None else returns.where(state_mask[:, 1:], 0.0)
