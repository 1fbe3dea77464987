"""Delta-belief: a reward for each step that raises the log-probability of the truth."""

import torch

from ..posterior import StepValues
from .outcome import standardized_in_group
from .rollouts import LOG_FLOOR, ScoredRollouts, differences

_BELIEF_WEIGHT = 0.1
"""Weight of a nat of belief beside the outcome, as in the paper's released training scripts."""


def delta_belief(rollouts: ScoredRollouts) -> StepValues:
    r"""Standardise, at each step of the group, the outcome and what the step adds to the belief:

    $$r(t) = v + 0.1 \, \max(0, \log b(t+1) - \log b(t)), \qquad A(t) = \frac{r(t) - \mathrm{mean}}
    {\mathrm{std}}$$

    arXiv 2602.12342 and its released code: b is the probability of the truth (the product over its
    tokens), the step that answers gets no belief reward, nothing is summed over steps. Deviations:
    the outcome is the run's reward, without penalties for length and form; rollouts that ended do
    not count in the statistics of later steps. It needs the truth and the outcome.
    """
    exists = rollouts.step_mask & rollouts.is_judged[:, None]
    answers = ~torch.nn.functional.pad(rollouts.step_mask[:, 1:], (0, 1))
    gains = differences(rollouts.truth_logps.clamp(min=LOG_FLOOR), rollouts.step_mask)
    rewards = rollouts.outcomes[:, None] + _BELIEF_WEIGHT * gains.clamp(min=0) * ~answers
    steps = [
        standardized_in_group(rewards[:, t], rollouts.groups, exists[:, t])
        for t in range(rewards.shape[1])
    ]
    closing = standardized_in_group(rollouts.outcomes, rollouts.groups, rollouts.is_judged)
    return StepValues(torch.stack(steps, dim=1) if steps else rewards, closing)
