r"""The paper's credit, eq. (adv_algo), and its baseline that knows the truth alone."""

from typing import Literal

import torch

from ..posterior import StepValues, values_under
from .rollouts import LOG_FLOOR, ScoredRollouts, at_last_state, is_answered


def barl(
    rollouts: ScoredRollouts,
    *,
    outcome_mode: Literal["ground_truth", "hypothesis"] = "ground_truth",
) -> StepValues:
    r"""Weigh the values of all hypotheses with the belief in them: $\sum_i w_i(t) Q_i(t)$.

    arXiv 2505.20561; [`values_under`] has the equations. It needs all hypotheses and the outcome.
    """
    outcomes = rollouts.outcomes
    if outcome_mode == "hypothesis":
        outcomes = hypothesis_outcomes(rollouts)
    return values_under(
        rollouts.belief,
        rollouts.answer_logps,
        outcomes,
        rewards=rollouts.rewards,
        state_mask=rollouts.state_mask,
        outcome=outcome_mode,
    )


def progress(
    rollouts: ScoredRollouts, *, progress_space: Literal["probability", "log"] = "probability"
) -> StepValues:
    r"""Give each step the progress after its start, and the outcome: $p_0(T) - p_0(t) + v$.

    The paper's baseline (arXiv 2505.20561, after arXiv 2410.08146): BARL with the truth as the only
    hypothesis. With `progress_space="log"` it is $\log p_0(T) - \log p_0(t) + v$, where lower
    log-likelihoods count as [`LOG_FLOOR`]. It needs the truth and the outcome.
    """
    p = rollouts.truth_plausibility
    if progress_space == "log":
        p = rollouts.truth_logps.clamp(min=LOG_FLOOR)
    left = at_last_state(p, rollouts.state_mask)[:, None] - p[:, :-1]
    steps = (left + rollouts.outcomes[:, None]) * rollouts.step_mask
    return StepValues(steps, rollouts.outcomes)


def hypothesis_outcomes(rollouts: ScoredRollouts) -> torch.Tensor:
    """Return outcome rewards under each hypothesis, (B, H), for `outcome_mode="hypothesis"`.

    A reward is 1 where the hypothesis is the rollout's answer, else 0. Under the truth it is the
    rollout's own outcome reward.
    """
    rewards = is_answered(rollouts)
    rewards[:, 0] = rollouts.outcomes
    return rewards
