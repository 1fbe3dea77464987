r"""The paper's equations: from answer log-likelihoods to the posterior-weighted value of every
reasoning step.

All functions are batched over rollouts and pure. Hypothesis 0 is the ground truth. Axes: `state`
has T + 1 entries (state 0 is the prompt), `step` has T (step t leads from state t to state t + 1).
Short rollouts and small hypothesis sets are padded: `state_mask[b]` is true for a leading run of
states, `hypothesis_mask[b]` for the hypotheses that exist. Padded states and steps of every result
are 0, whatever stands in the padding of the inputs. Padded hypotheses are 0 in the results of
functions that take their mask.
Results are float32, or float64 if the inputs are.

Where the task tells more than answers, `rewards` are those that each hypothesis predicts for each
step, in place of the progress rewards; `log_prior` and `observation_logps` say what the task knows
of the hypotheses before and after each observation. `answer_logps=None` leaves the plausibilities
out: the belief is then the task's alone.
"""

import math
from typing import NamedTuple

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
        answer_logps: Log-likelihood of each hypothesis's answer at each state, in nats, at most 0;
            `-inf` is allowed.
        state_mask: The states that exist. `None`: all.

    Returns:
        Rewards in [-1, 1]. Those of hypothesis 0 are the observed rewards.

    Example:
    ```python
    >>> progress_rewards(torch.tensor([[[0.25], [0.75]]]).log())
    tensor([[[0.5000]]])

    ```
    """
    p = _plausibilities(answer_logps)
    return _masked(p[:, 1:] - p[:, :-1], _step_mask(answer_logps, state_mask))


def discrepancy(
    answer_logps: Float[Tensor, "batch state hypothesis"] | None,
    *,
    rewards: Float[Tensor, "batch step hypothesis"] | None = None,
    state_mask: Bool[Tensor, "batch state"] | None = None,
) -> Float[Tensor, "batch state hypothesis"]:
    r"""Sum how far the rewards that a hypothesis predicts have been from the observed ones so far,
    the exponent of eq. (error):

    $$D_i(t) = \sum_{t' < t} |r_0(t') - r_i(t')|, \qquad t = 0 \dots T$$

    `D_i(0) = 0` and `D_0 = 0`. The consistency of hypothesis i is `exp(-beta * D_i)`.

    Args:
        answer_logps: Log-likelihood of each hypothesis's answer at each state, in nats. It may be
            `None` if `rewards` are given.
        rewards: Rewards that each hypothesis predicts; those of hypothesis 0 are the observed ones.
            `None`: the progress rewards of `answer_logps`.
        state_mask: The states that exist. `None`: all.

    Returns:
        Discrepancies; in [0, 2t] with progress rewards.
    """
    if rewards is None:
        rewards = progress_rewards(_given(answer_logps), state_mask=state_mask)
    elif state_mask is not None:
        rewards = _masked(rewards, state_mask[:, 1:])
    gaps = (rewards[..., :1] - rewards).abs()
    summed = torch.nn.functional.pad(gaps.cumsum(dim=1), (0, 0, 1, 0))
    return _masked(summed, state_mask)


class TaskBelief(NamedTuple):
    """What the task says of the hypotheses: their prior, and the likelihoods of observations."""

    log_weights: Float[Tensor, "batch state hypothesis"]
    """Log of prior times likelihoods at each state, in nats, up to a constant; -inf where ruled
    out."""
    is_contradicted: Bool[Tensor, "batch step"]
    """The observations that no hypothesis with a weight allows. They are left out: the model of the
    world is wrong there, and the belief stays."""


def task_belief(
    log_prior: Float[Tensor, "batch hypothesis"],
    observation_logps: Float[Tensor, "batch step hypothesis"],
) -> TaskBelief:
    r"""Update the prior with each observation, by Bayes' rule:

    $$\log w_i(t) = \log w_i(0) + \sum_{t' < t} \log p(o_{t'} \mid h_{t'}, M_i)$$

    Args:
        log_prior: Log of the prior weight of each hypothesis, up to a constant; -inf for one that
            does not exist.
        observation_logps: Log-likelihood of each step's observation under each hypothesis, in nats:
            0 if the hypothesis says that this is what is seen, -inf if it cannot be. 0 in padding.
    """
    states, contradicted = [log_prior], []
    for observed in observation_logps.unbind(dim=1):
        updated = states[-1] + observed
        is_impossible = updated.amax(dim=-1) == -math.inf
        states.append(torch.where(is_impossible[:, None], states[-1], updated))
        contradicted.append(is_impossible)
    none = observation_logps.new_zeros(len(log_prior), 0, dtype=torch.bool)
    return TaskBelief(
        torch.stack(states, dim=1), torch.stack(contradicted, dim=1) if contradicted else none
    )


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
    r"""Compute the belief over the hypotheses at every state, the self-normalised weights of eq.
    (adv_algo):

    $$w_i(t) = \mathrm{softmax}_i\Bigl(\ell_i(t) - \beta D_i(t)
    + \log \pi_i + \sum_{t' < t} \log p(o_{t'} \mid M_i)\Bigr)$$

    computed in log space. The paper has the first two terms: plausibility and consistency. The
    others are the task's prior and the likelihoods of observations ([`task_belief`]). With
    `beta = inf` the consistency is 1 where `D_i(t) = 0`, else 0. Where no hypothesis that the
    consistency and the task allow has any plausibility, the plausibilities say nothing and the
    others alone decide.

    Args:
        answer_logps: Log-likelihood of each hypothesis's answer at each state, in nats. `None`: the
            belief has no plausibilities, and a consistency only with `rewards`.
        beta: Consistency coefficient, from 0 to `inf`.
        rewards: Rewards that each hypothesis predicts, for the consistency; those of hypothesis 0
            are the observed ones. `None`: the progress rewards of `answer_logps`.
        log_prior: Log of the prior weight of each hypothesis, up to a constant. `None`: uniform.
        observation_logps: Log-likelihood of each step's observation under each hypothesis, in nats.
            `None`: nothing is observed.
        state_mask: The states that exist. `None`: all.
        hypothesis_mask: The hypotheses that exist. `None`: all.

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
    if hypothesis_mask is not None:
        absent = ~hypothesis_mask[:, None]
        log_weights = log_weights.masked_fill(absent, -math.inf)
        if answer_logps is not None:
            answer_logps = answer_logps.masked_fill(absent, -math.inf)
    if answer_logps is None:
        belief = log_weights.softmax(dim=-1)
    else:
        logits = answer_logps.to(log_weights.dtype) + log_weights
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

    The second form holds for progress rewards, whose sum telescopes.

    Args:
        answer_logps: Log-likelihood of each hypothesis's answer at each state, in nats. It may be
            `None` if `rewards` are given.
        rewards: Rewards that each hypothesis predicts. `None`: the progress rewards.
        outcome_rewards: Outcome reward v of each rollout; with `outcome="hypothesis"` one for each
            hypothesis.
        state_mask: The states that exist. `None`: all.
        outcome: `"ground_truth"`: the same v in every hypothesis (the paper's equation).
            `"hypothesis"`: each hypothesis's own, verifier(s_T, y_i).

    Returns:
        Values; in [v - 1, v + 1] with progress rewards.

    Raises:
        ValueError: `outcome` is unknown, or `outcome_rewards` does not have its shape.
    """
    states = _states_of(answer_logps, rewards)
    v = _outcome_rewards(states, outcome_rewards, outcome)
    if rewards is None:
        p = _plausibilities(states)
        left = _at_last_state(p, state_mask) - p[:, :-1]
    else:
        left = _masked(rewards, _step_mask(states, state_mask)).flip(1).cumsum(dim=1).flip(1)
    return _masked(left + v, _step_mask(states, state_mask))


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
    r"""Compute the weight of every step in the policy gradient of eq. (bayes_gradient), eq.
    (adv_algo):

    $$V(t) = \sum_i w_i(t) \, Q_i(t), \qquad t = 0 \dots T-1$$

    With the ground truth as the only hypothesis this is the progress baseline, `p_0(T) - p_0(t) +
    v`.

    Args:
        answer_logps: Log-likelihood of each hypothesis's answer at each state, in nats.
        outcome_rewards: Outcome reward of each rollout, or of each hypothesis.
        beta: Consistency coefficient, from 0 to `inf`.
        rewards: Rewards that each hypothesis predicts; those of hypothesis 0 are the observed ones.
            `None`: the progress rewards. With them `answer_logps=None` leaves the plausibilities
            out of the belief.
        state_mask: The states that exist. `None`: all.
        hypothesis_mask: The hypotheses that exist. `None`: all.
        outcome: `"ground_truth"` or `"hypothesis"`: whose reward v is in [`q_values`].

    Returns:
        Values, detached from any graph: they weigh the gradient and carry none.

    Raises:
        ValueError: `beta` is negative or NaN, `outcome` is unknown, or `outcome_rewards` does not
            have its shape.

    Example:
    ```python
    >>> p = torch.tensor([[[0.2, 0.6], [0.8, 0.1]]])  # one step, towards the truth
    >>> outcome_rewards = torch.tensor([1.0])  # so V = (0.2 * 1.6 + 0.6 * 0.5) / 0.8
    >>> posterior_weighted_values(p.log(), outcome_rewards, beta=1.0)
    tensor([[0.7750]])

    ```
    """
    belief = posterior(
        answer_logps,
        beta=beta,
        rewards=rewards,
        state_mask=state_mask,
        hypothesis_mask=hypothesis_mask,
    )
    return values_under(
        belief,
        answer_logps,
        outcome_rewards,
        rewards=rewards,
        state_mask=state_mask,
        outcome=outcome,
    ).steps


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

    which is the outcome reward v itself with `outcome="ground_truth"`.

    Args:
        belief: What [`posterior`] returns.
        answer_logps: Log-likelihood of each hypothesis's answer at each state, in nats. It may be
            `None` if `rewards` are given.
        outcome_rewards: Outcome reward of each rollout, or of each hypothesis.
        rewards: Rewards that each hypothesis predicts. `None`: the progress rewards.
        state_mask: The states that exist. `None`: all.
        outcome: `"ground_truth"` or `"hypothesis"`: whose reward v is in [`q_values`].

    Raises:
        ValueError: `outcome` is unknown, or `outcome_rewards` does not have its shape.
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
    return (
        answer_logps.to(torch.promote_types(answer_logps.dtype, torch.float32)).clamp(max=0).exp()
    )


def _given(answer_logps: Tensor | None) -> Tensor:
    if answer_logps is None:
        raise ValueError("answer_logps must be given without rewards, got None: give either.")
    return answer_logps


def _states_of(
    answer_logps: Float[Tensor, "batch state hypothesis"] | None,
    *of_steps: Float[Tensor, "batch step hypothesis"] | None,
) -> Float[Tensor, "batch state hypothesis"]:
    """Return a tensor with an entry for each state and hypothesis: the log-likelihoods, or zeros.

    Args:
        answer_logps: The log-likelihoods, if they are given.
        of_steps: Tensors with an entry for each step, of which one must be given else.
    """
    steps = next((tensor for tensor in of_steps if tensor is not None), None)
    if answer_logps is None and steps is not None:
        return steps.new_zeros(len(steps), steps.shape[1] + 1, steps.shape[2])
    return _given(answer_logps)


def _outcome_rewards(
    states: Float[Tensor, "batch state hypothesis"],
    outcome_rewards: Float[Tensor, "..."],
    outcome: str,
) -> Float[Tensor, "batch 1 _"]:
    """Check outcome rewards: one for all hypotheses or one for each."""
    batch, _, hypotheses = states.shape
    shapes = {"ground_truth": (batch,), "hypothesis": (batch, hypotheses)}
    if outcome not in shapes:
        raise ValueError(f"outcome must be one of {sorted(shapes)}, got {outcome!r}.")
    if outcome_rewards.shape != shapes[outcome]:
        raise ValueError(
            f"outcome_rewards must have shape {shapes[outcome]} with outcome={outcome!r}, "
            f"got {tuple(outcome_rewards.shape)}: pass a reward for each "
            f"{'rollout' if outcome == 'ground_truth' else 'rollout and hypothesis'}."
        )
    dtype = torch.promote_types(states.dtype, torch.float32)
    return outcome_rewards.to(dtype).reshape(batch, 1, hypotheses if outcome == "hypothesis" else 1)


def _at_last_state(
    values: Float[Tensor, "batch state hypothesis"], state_mask: Bool[Tensor, "batch state"] | None
) -> Float[Tensor, "batch 1 hypothesis"]:
    if state_mask is None:
        return values[:, -1:]
    last_state = (state_mask.sum(dim=1) - 1).clamp(min=0)
    return values.take_along_dim(last_state[:, None, None], dim=1)


def _step_mask(
    answer_logps: Float[Tensor, "batch state hypothesis"],
    state_mask: Bool[Tensor, "batch state"] | None,
) -> Bool[Tensor, "batch step"] | None:
    if 0 in answer_logps.shape[1:]:
        raise ValueError(
            "answer_logps must have at least one state (the prompt) and one hypothesis (the ground "
            f"truth), got shape {tuple(answer_logps.shape)}."
        )
    return None if state_mask is None else state_mask[:, 1:]


def _masked(
    values: Float[Tensor, "batch time hypothesis"], mask: Bool[Tensor, "batch time"] | None
) -> Float[Tensor, "batch time hypothesis"]:
    return values if mask is None else torch.where(mask[..., None], values, 0.0)
