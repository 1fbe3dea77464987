"""The likelihood of the true answer after a chain of thought: rewards without a verifier."""

from ..posterior import StepValues
from .outcome import for_all_steps, standardized_in_group
from .rollouts import LOG_FLOOR, ScoredRollouts, at_last_state


def rlpr(rollouts: ScoredRollouts) -> StepValues:
    r"""Give each step what the reasoning added to the probability of the true answer,

    $$r = \mathrm{clip}(\bar p_0(T) - \bar p_0(0), 0, 1)$$

    standardised in the group as GRPO does. arXiv 2506.18254: $\bar p$ is the mean over the answer's
    tokens of their probabilities (`answer_likelihood="token_mean"`). Deviations: the probability
    without reasoning, $\bar p_0(0)$, is the policy's now, not the initial model's; prompts of small
    deviation are not filtered out; there is no reward for form. It needs the truth, and no outcome.
    """
    p = rollouts.truth_plausibility
    gained = (at_last_state(p, rollouts.state_mask) - p[:, 0]).clamp(0, 1)
    rewards = standardized_in_group(gained, rollouts.groups, rollouts.is_judged)
    return for_all_steps(rewards, rollouts)


def likelihood(rollouts: ScoredRollouts) -> StepValues:
    r"""Give each step the log-likelihood of the true answer after its rollout, $\log p_0(T)$.

    arXiv 2602.03979, its reward `log-prob` (the sum over the answer's tokens), minus the baseline
    `leave_one_out`. Deviation: the likelihood's own gradient, supervised learning of the answer, is
    left out: weights carry no gradient. It needs the truth, and no outcome.
    """
    logps = at_last_state(rollouts.truth_logps, rollouts.state_mask).clamp(min=LOG_FLOOR)
    return for_all_steps(logps, rollouts)
