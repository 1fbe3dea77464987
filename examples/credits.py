r"""Credits of other papers, in a few lines each: `barl train --credit examples.credits.maxrl ...`.

Run it at the root of a clone, or copy the file beside your script. The package's own credits
(`barl_trl.credit.registry`) stand in `--credit` by their names; these do not.

"Read in" says where the equation was checked. Where this is not the paper or its released code, an
expert should check it again before citing.
"""

from functools import partial

import torch
from torch.nn.functional import pad

from barl_trl.credit.bayes import belief_entropy
from barl_trl.credit.gae import advantages
from barl_trl.credit.outcome import for_all_steps, grpo, standardized_in_group
from barl_trl.credit.registry import Credit
from barl_trl.credit.rollouts import (
    LOG_FLOOR,
    ScoredRollouts,
    at_last_state,
    differences,
    group_sums,
)
from barl_trl.posterior import StepValues


@partial(Credit, hypotheses="none", value_normalization="none")
def maxrl(rollouts: ScoredRollouts) -> StepValues:
    r"""Maximum-likelihood RL: divide the outcome by the group's mean, so rare successes count more:

    $$A = \frac{v - \mathrm{mean}}{\mathrm{mean} + 10^{-6}}$$

    arXiv 2602.02710. Read in its released code. For G rollouts with outcomes 0 and 1 the gradient
    is on average that of $-\sum_{k=1}^{G-1} (1 - p)^k / k$, which tends to $\log p$, where p is the
    probability of a success. Deviation: a group with a mean of 0 or less gets 0, because rewards
    may be negative here. It needs the outcome, and no scoring.
    """
    judged = rollouts.is_judged.to(rollouts.outcomes.dtype)
    number = group_sums(judged, rollouts.groups).clamp(min=1)
    mean = group_sums(rollouts.outcomes * judged, rollouts.groups) / number
    relative = (rollouts.outcomes - mean) / (mean.clamp(min=0) + 1e-6)
    return for_all_steps(torch.where(mean > 0, relative, 0.0), rollouts)


@partial(Credit, hypotheses="none", credit_baseline="group", value_normalization="batch")
def reinforce_pp(rollouts: ScoredRollouts) -> StepValues:
    r"""REINFORCE++ with its baseline: subtract the group's mean, and whiten over the batch:

    $$A' = v - \mathrm{mean}_{group}(v), \qquad A = \frac{A' - \mathrm{mean}_{batch}(A')}
    {\mathrm{std}_{batch}(A')}$$

    arXiv 2501.03262, eq. 6 and 7 (version 9). Read in the paper. This function is the outcome; the
    settings do the rest. With `credit_baseline="none"` it is the paper's REINFORCE++ with k = 1,
    eq. 5. Deviation: the KL term is TRL's `beta`, not the paper's estimator. No scoring.
    """
    return for_all_steps(rollouts.outcomes, rollouts)


@partial(
    Credit,
    hypotheses="truth",
    answer_likelihood="sum",
    credit_baseline="leave_one_out",
    value_normalization="none",
)
def verifree(rollouts: ScoredRollouts) -> StepValues:
    r"""VeriFree: reward the probability of the true answer after the reasoning, minus RLOO's mean:

    $$R = p_0(T) = \prod_j \pi(y^*_j \mid x, z, y^*_{<j})$$

    arXiv 2505.21493. Read in its released code, with that repository's settings
    (`reward_source p`, `critic_type rloo`). There a rollout that was cut off has reward 0, and here
    too. Deviation: the paper's second term, supervised learning of the answer with weight R, is
    left out: weights carry no gradient. It needs the truth, and no outcome.
    """
    p = at_last_state(rollouts.truth_plausibility, rollouts.state_mask)
    return for_all_steps(p * ~rollouts.is_cut_off, rollouts)


@partial(Credit, hypotheses="truth", value_normalization="none")
def mig(rollouts: ScoredRollouts) -> StepValues:
    r"""Marginal information gain: what steps add to the highest likelihood of the truth so far:

    $$h(t) = \max(h(t-1), \ell(t)), \qquad g(t) = \max(0, \ell(t) - h(t-1)), \qquad
    A = z_{group}\Big(\sum_t g(t)\Big) + z_{group}(v)$$

    arXiv 2602.01034, with $\ell(t) = \log p_0(t)$ per token and $z_{group}$ for
    standardising in the group. Tokens after the last step get the second term alone (the paper's
    decoupled masks). The paper was not read: a note and a review agree on the gain, the note alone
    has the masks, and another note defines the maximum so far differently. The sum of gains is
    $\max_t \ell(t) - \ell(0)$. Deviations: both terms have weight 1, the notes do not tell the
    paper's; no supervised term, no reward for form. It needs the truth and the outcome.
    """
    logps = rollouts.truth_logps.clamp(min=LOG_FLOOR)
    watermark = logps.masked_fill(~rollouts.state_mask, LOG_FLOOR).cummax(dim=1).values
    gained = differences(watermark, rollouts.step_mask).sum(dim=1)
    process, outcome = (
        standardized_in_group(rewards, rollouts.groups, rollouts.is_judged)
        for rewards in (gained, rollouts.outcomes)
    )
    return StepValues((process + outcome)[:, None] * rollouts.step_mask, outcome)


@partial(Credit, hypotheses="truth", answer_likelihood="sum", value_normalization="none")
def oppo(rollouts: ScoredRollouts) -> StepValues:
    r"""OPPO by steps: the chance of success, updated with each step's evidence; credit its changes:

    $$V(t) = \sigma(\ell(t)), \qquad \ell(t+1) = \ell(t) + \log \lambda(t), \qquad
    A(t) = V(t+1) - V(t)$$

    arXiv 2605.21851, with $\lambda = \pi(y \mid x, y^*) / \pi(y \mid x)$ for each token y. By
    Bayes' rule its product over a step is $p_0(t+1) / p_0(t)$, so that scoring yields it without
    the paper's second prompt. The end gets $v - V(T)$: all sums to $v - V(0)$. Read in a note on
    the paper, not in the paper, which does not tell V(0): here it is
    $(1 + \sum_{others} v) / (1 + n)$ of a group of n. Deviation: the paper's clipping of evidence
    and anchoring of signs are left out. It needs the truth and the outcome.
    """
    v = rollouts.outcomes.clamp(0, 1) * rollouts.is_judged
    number = group_sums(rollouts.is_judged.to(v.dtype), rollouts.groups)
    prior = (1 + group_sums(v, rollouts.groups) - v) / (1 + number)
    logps = rollouts.truth_logps.clamp(min=LOG_FLOOR)
    value = torch.sigmoid(prior.logit()[:, None] + logps - logps[:, :1])
    return advantages(value, rollouts.outcomes, rollouts.state_mask, gae_lambda=0.0)


@partial(Credit, value_normalization="none")
def t3(rollouts: ScoredRollouts, *, window: int = 3, least: float = 1e-6) -> StepValues:
    r"""T3's mask on GRPO: no weight once the belief has not narrowed for `window` steps:

    $$A(t) = 0 \;\text{ if for some } s \le t: \; d(\tau) \le \Delta_{min}
    \text{ for all } \tau \in [s - k, s)$$

    arXiv 2510.12264, definition 2, with window k and `least` as $\Delta_{min}$; k = 3 is its choice
    for circuits. Read in two notes on the paper, which agree, not in the paper. There d is the
    number of candidates that a step rules out. Here it is what the belief's entropy loses, as a
    share of log H, which says the same where the belief is flat over the candidates left.
    Deviations: the paper ends the rollout there, which saves tokens; here its outcome is that of
    the whole rollout. Give it the task's belief (`belief: task`), or few candidates: with one
    hypothesis nothing narrows, and all is cut after `window` steps.
    """
    narrowed = differences(-belief_entropy(rollouts), rollouts.step_mask)
    stalls = (narrowed <= least) & rollouts.step_mask
    counts = pad(stalls.cumsum(dim=1), (window, 0))
    is_trap = counts[:, window:] - counts[:, :-window] == window
    trapped = pad(is_trap, (1, 0)).cumsum(dim=1) > 0  # one entry for each state
    steps, closing = grpo(rollouts)
    return StepValues(steps * ~trapped[:, :-1], closing * ~trapped[:, -1])
