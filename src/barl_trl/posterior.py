r"""The paper's equations: from answer log-likelihoods to the posterior-weighted value of a step.

All functions are batched over rollouts and pure. Hypothesis 0 is the ground truth. Axes: `state`
has T + 1 entries (state 0 is the prompt), `step` has T (step t leads from state t to state t + 1).
Short rollouts and small hypothesis sets are padded: `state_mask[b]` is true for a leading run of
states, `hypothesis_mask[b]` for the hypotheses that exist. The padding of every result is 0,
whatever stands in that of the inputs; that of hypotheses only with their mask. Results are float32,
or float64 if the inputs are.

`answer_logps` are the log-likelihoods of each hypothesis's answer at each state, in nats, at most
0; `-inf` is allowed. Where the task tells more than answers, `rewards` are those that each
hypothesis predicts for each step, those of hypothesis 0 the observed ones, in place of the progress
rewards; `log_prior` and `observation_logps` say what the task knows of the hypotheses before and
after each observation. `answer_logps=None` leaves the plausibilities out: the belief is then the
task's alone. Masks that are None leave nothing out.
"""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def progress_rewards(
    answer_logps: Float[Tensor, "batch state hypothesis"],
    *,
    state_mask: Bool[Tensor, "batch state"] | None = None,
) -> Float[Tensor, "batch step hypothesis"]:
    r"""Compute the progress reward of every step under every hypothesis, eq. (def_r):

    $$r_i(t) = p_i(t+1) - p_i(t), \qquad p_i(t) = \exp(\ell_i(t)), \qquad t = 0 \dots T-1$$

    Args:
        answer_logps: Log-likelihood of each hypothesis's answer at each state, in nats.
        state_mask: The states that exist.

    Returns:
        Rewards in [-1, 1]. Those of hypothesis 0 are the observed rewards.
    """
    p = _plausibilities(answer_logps)
    return _masked(p[:, 1:] - p[:, :-1], state_mask)


def discrepancy(
    answer_logps: Float[Tensor, "batch state hypothesis"] | None,
    *,
    rewards: Float[Tensor, "batch step hypothesis"] | None = None,
    state_mask: Bool[Tensor, "batch state"] | None = None,
) -> Float[Tensor, "batch state hypothesis"]:
    r"""Sum how far the rewards of a hypothesis have been from the observed ones, eq. (error):

    $$D_i(t) = \sum_{t' < t} |r_0(t') - r_i(t')|, \qquad t = 0 \dots T$$

    `D_i(0) = 0` and `D_0 = 0`. The consistency of hypothesis i is `exp(-beta * D_i)`. It is in
    [0, 2t] with progress rewards. The arguments are those of [`q_values`].
    """
    if rewards is None:
        rewards = progress_rewards(_states_of(answer_logps), state_mask=state_mask)
    else:
        rewards = _masked(rewards, state_mask)
    gaps = (rewards[..., :1] - rewards).abs()
    summed = torch.nn.functional.pad(gaps.cumsum(dim=1), (0, 0, 1, 0))
    return _masked(summed, state_mask)


class TaskBelief(NamedTuple):
    """What the task says of the hypotheses: their prior, and the likelihoods of observations."""

    log_weights: Float[Tensor, "batch state hypothesis"]
    """Log of prior times likelihoods, in nats, up to a constant; -inf where ruled out."""
    is_contradicted: Bool[Tensor, "batch step"]
    """The observations that no hypothesis with a weight allows."""


def task_belief(
    log_prior: Float[Tensor, "batch hypothesis"],
    observation_logps: Float[Tensor, "batch step hypothesis"],
) -> TaskBelief:
    r"""Update the prior with each observation, by Bayes' rule:

    $$\log w_i(t) = \log w_i(0) + \sum_{t' < t} \log p(o_{t'} \mid h_{t'}, M_i)$$

    It is -inf for a hypothesis that does not exist. `observation_logps`, in nats, are 0 if the
    hypothesis says that this is what is seen, -inf if it cannot be, and 0 in padding. An
    observation that nothing allows is left out: the model of the world is wrong there.
    """
    states, contradicted = [log_prior], []
    for observed in observation_logps.unbind(dim=1):
        updated = states[-1] + observed
        is_impossible = updated.amax(dim=-1) == -math.inf
        states.append(torch.where(is_impossible[:, None], states[-1], updated))
        contradicted.append(is_impossible)
    contradicted = torch.stack([torch.zeros_like(log_prior[:, 0], dtype=torch.bool), *contradicted])
    return TaskBelief(torch.stack(states, dim=1), contradicted[1:].T)


def posterior(
    answer_logps: Float[Tensor, "batch state hypothesis"] | None,
    *,
    beta: float,
    rewards: Float[Tensor, "batch step hypothesis"] | None = None,
    log_prior: Float[Tensor, "batch hypothesis"] | None = None,
    observation_logps: Float[Tensor, "batch step hypothesis"] | None = None,
    state_mask: Bool[Tensor, "batch state"] | None = None,
    hypothesis_mask: Bool[Tensor, "batch hypothesis"] | None = None,
) -> Float[Tensor, "batch state hypothesis"]:
    r"""Compute the belief at every state, the self-normalised weights of eq. (adv_algo):

    $$w_i(t) = \mathrm{softmax}_i\Bigl(\ell_i(t) - \beta D_i(t)
    + \log \pi_i + \sum_{t' < t} \log p(o_{t'} \mid M_i)\Bigr)$$

    The paper has the first two terms, plausibility and consistency, which with `beta = inf` is 1
    where `D_i(t) = 0`, else 0. The others are the task's prior and the likelihoods of observations
    ([`task_belief`]). Where they and the consistency allow nothing plausible, they alone decide.

    The model has read the observations, so that with `observation_logps` its $\ell_i(t)$ would
    count them twice: $\ell_i(0)$ takes its place for all t, so that there is no progress either.

    Args:
        answer_logps: Log-likelihood of each answer at each state, in nats; None: no plausibilities.
        beta: Consistency coefficient, from 0 to `inf`.
        rewards: Rewards that each hypothesis predicts. None: the progress rewards.
        log_prior: Log of the prior weight of each hypothesis, up to a constant. None: uniform.
        observation_logps: Log-likelihood of each step's observation under each hypothesis, in nats.
        state_mask: The states that exist.
        hypothesis_mask: The hypotheses that exist.

    Returns:
        Rows over the hypotheses that exist sum to 1.

    Raises:
        ValueError: `beta` is negative or NaN, or nothing is given from which a belief follows.
    """
    if not beta >= 0:
        raise ValueError(f"beta must be in [0, inf], got {beta}: use 1.0, the paper's value.")
    states = _states_of(answer_logps, rewards, observation_logps)
    dtype = torch.promote_types(states.dtype, torch.float32)
    log_weights = torch.zeros_like(states, dtype=dtype)
    if answer_logps is not None and observation_logps is not None:
        answer_logps = answer_logps[:, :1].expand_as(answer_logps)
    if answer_logps is not None or rewards is not None:
        d = discrepancy(answer_logps, rewards=rewards, state_mask=state_mask)
        # inf * 0 is NaN, so the limit is written out
        log_weights = log_weights.masked_fill(d != 0, -math.inf) if beta == math.inf else -beta * d
    if log_prior is not None or observation_logps is not None:
        if log_prior is None:
            log_prior = torch.zeros_like(log_weights[:, 0])
        if observation_logps is None:
            observation_logps = torch.zeros_like(log_weights[:, 1:])
        if hypothesis_mask is not None:
            log_prior = log_prior.masked_fill(~hypothesis_mask, -math.inf)
        of_task = task_belief(log_prior, observation_logps).log_weights
        both = log_weights + of_task
        # a task that rules the truth out contradicts the consistency, which then says nothing
        is_ruled_out = both.amax(dim=-1, keepdim=True) == -math.inf
        log_weights = torch.where(is_ruled_out, of_task, both)
    logits = log_weights
    if answer_logps is not None:
        logits = answer_logps.to(log_weights.dtype) + log_weights
    if hypothesis_mask is not None:
        absent = ~hypothesis_mask[:, None]
        log_weights, logits = (x.masked_fill(absent, -math.inf) for x in (log_weights, logits))
    no_mass = logits.amax(dim=-1, keepdim=True) == -math.inf
    belief = torch.where(no_mass, log_weights, logits).softmax(dim=-1)
    return _masked(torch.where(log_weights == -math.inf, 0.0, belief), state_mask)


def q_values(
    answer_logps: Float[Tensor, "batch state hypothesis"] | None,
    outcome_rewards: Float[Tensor, " batch"] | Float[Tensor, "batch hypothesis"],
    *,
    rewards: Float[Tensor, "batch step hypothesis"] | None = None,
    state_mask: Bool[Tensor, "batch state"] | None = None,
    outcome: str = "ground_truth",
) -> Float[Tensor, "batch step hypothesis"]:
    r"""Compute the value of every step under every hypothesis, eq. (def_q_m):

    $$Q_i(t) = \sum_{k \ge t} r_i(k) + v = p_i(T) - p_i(t) + v, \qquad t = 0 \dots T-1$$

    Args:
        answer_logps: Log-likelihood of each answer at each state, in nats; None needs `rewards`.
        outcome_rewards: Outcome reward v of each rollout, or verifier(s_T, y_i) of each hypothesis.
        rewards: Rewards that each hypothesis predicts. None: the progress rewards.
        state_mask: The states that exist.
        outcome: `"ground_truth"` (the paper: the same v in every hypothesis) or `"hypothesis"`.

    Returns:
        Values; with progress rewards, whose sum telescopes, in [v - 1, v + 1].

    Raises:
        ValueError: `outcome` is unknown, or `outcome_rewards` does not have its shape.
    """
    states = _states_of(answer_logps, rewards)
    v = _outcome_rewards(states, outcome_rewards, outcome)
    if rewards is None:
        p = _plausibilities(states)
        left = _at_last_state(p, state_mask) - p[:, :-1]
    else:
        left = _masked(rewards, state_mask).flip(1).cumsum(dim=1).flip(1)
    return _masked(left + v, state_mask)


def posterior_weighted_values(
    answer_logps: Float[Tensor, "batch state hypothesis"] | None,
    outcome_rewards: Float[Tensor, " batch"] | Float[Tensor, "batch hypothesis"],
    *,
    beta: float,
    rewards: Float[Tensor, "batch step hypothesis"] | None = None,
    state_mask: Bool[Tensor, "batch state"] | None = None,
    hypothesis_mask: Bool[Tensor, "batch hypothesis"] | None = None,
    outcome: str = "ground_truth",
) -> Float[Tensor, "batch step"]:
    r"""Compute the weight of every step in eq. (bayes_gradient), eq. (adv_algo):

    $$V(t) = \sum_i w_i(t) \, Q_i(t), \qquad t = 0 \dots T-1$$

    With the truth as the only hypothesis this is the progress baseline, `p_0(T) - p_0(t) + v`.

    The arguments are those of [`posterior`] and [`q_values`].

    Returns:
        Values, detached from any graph: they weigh the gradient and carry none.

    Example:
        >>> p = torch.tensor([[[0.2, 0.6], [0.8, 0.1]]])  # one step, towards the truth
        >>> outcome_rewards = torch.tensor([1.0])  # so V = (0.2 * 1.6 + 0.6 * 0.5) / 0.8
        >>> posterior_weighted_values(p.log(), outcome_rewards, beta=1.0)
        tensor([[0.7750]])
    """
    given: Any = {"rewards": rewards, "state_mask": state_mask}
    belief = posterior(answer_logps, beta=beta, hypothesis_mask=hypothesis_mask, **given)
    return values_under(belief, answer_logps, outcome_rewards, outcome=outcome, **given).steps


class StepValues(NamedTuple):
    """The values of a rollout's steps, and of ending its turn, detached from any graph."""

    steps: Float[Tensor, "batch step"]
    """V(t), eq. (adv_algo)."""
    closing: Float[Tensor, " batch"]
    """V(T), where the sum in eq. (def_q_m) is empty."""


def values_under(
    belief: Float[Tensor, "batch state hypothesis"],
    answer_logps: Float[Tensor, "batch state hypothesis"] | None,
    outcome_rewards: Float[Tensor, " batch"] | Float[Tensor, "batch hypothesis"],
    *,
    rewards: Float[Tensor, "batch step hypothesis"] | None = None,
    state_mask: Bool[Tensor, "batch state"] | None = None,
    outcome: str = "ground_truth",
) -> StepValues:
    r"""Compute the values under a known belief: those of [`posterior_weighted_values`], and

    $$V(T) = \sum_i w_i(T) \, v_i$$

    which is the outcome reward v itself with `outcome="ground_truth"`. The arguments are what
    [`posterior`] returns, and those of [`q_values`].
    """
    with torch.no_grad():
        q = q_values(
            answer_logps, outcome_rewards, rewards=rewards, state_mask=state_mask, outcome=outcome
        )
        v = _outcome_rewards(belief, outcome_rewards, outcome)
        last = _at_last_state(belief, state_mask)
        # a hypothesis that is not believed adds nothing, also where its value is undefined
        return StepValues(
            torch.where(belief[:, :-1] > 0, belief[:, :-1] * q, 0.0).sum(dim=-1),
            torch.where(last > 0, last * v, 0.0).sum(dim=(1, 2)),
        )


def _plausibilities(answer_logps: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    # rounding in the model's dtype may leave a certain answer slightly above log 1
    dtype = torch.promote_types(answer_logps.dtype, torch.float32)
    return answer_logps.to(dtype).clamp(max=0).exp()


def _states_of(
    answer_logps: Float[Tensor, "batch state hypothesis"] | None,
    *of_steps: Float[Tensor, "batch step hypothesis"] | None,
) -> Float[Tensor, "batch state hypothesis"]:
    """Return the log-likelihoods, or zeros in their shape, which another tensor's steps tell."""
    if answer_logps is not None:
        return answer_logps
    steps = next((tensor for tensor in of_steps if tensor is not None), None)
    if steps is None:
        raise ValueError("answer_logps must be given without rewards, got None: give either.")
    return steps.new_zeros(len(steps), steps.shape[1] + 1, steps.shape[2])


def _outcome_rewards(
    states: Float[Tensor, "batch state hypothesis"],
    outcome_rewards: Float[Tensor, "..."],
    outcome: str,
) -> Float[Tensor, "batch 1 _"]:
    batch, _, hypotheses = states.shape
    shapes = {"ground_truth": (batch,), "hypothesis": (batch, hypotheses)}
    if outcome_rewards.shape != shapes.get(outcome):
        raise ValueError(
            f"outcome_rewards must have shape {shapes.get(outcome)} with outcome={outcome!r} (one "
            f"of {[*shapes]}), got {tuple(outcome_rewards.shape)}."
        )
    v = outcome_rewards.to(torch.promote_types(states.dtype, torch.float32))
    return v[:, None] if outcome == "hypothesis" else v[:, None, None]


def _at_last_state(
    values: Float[Tensor, "batch state hypothesis"], state_mask: Bool[Tensor, "batch state"] | None
) -> Float[Tensor, "batch 1 hypothesis"]:
    if state_mask is None:
        return values[:, -1:]
    last_state = (state_mask.sum(dim=1) - 1).clamp(min=0)
    return values.take_along_dim(last_state[:, None, None], dim=1)


def _masked(
    values: Float[Tensor, "batch time hypothesis"], state_mask: Bool[Tensor, "batch state"] | None
) -> Float[Tensor, "batch time hypothesis"]:
    """Return values of states, or of steps, with 0 in padding."""
    if state_mask is None:
        return values
    exists = state_mask[:, state_mask.shape[1] - values.shape[1] :]  # a step leads to its state
    return torch.where(exists[..., None], values, 0.0)
