"""Information gain (IGPO): a reward for each step that raises the plausibility of the truth."""

from functools import reduce
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..posterior import StepValues
from .rollouts import LOG_FLOOR, ScoredRollouts, differences, group_sums


def information_gain(
    rollouts: ScoredRollouts,
    *,
    progress_space: Literal["probability", "log"] = "probability",
    gain_normalization: Literal["joint", "separate"] = "joint",
) -> StepValues:
    r"""Standardise gains and outcomes together in the group, and sum those from a step on:

    $$r(t) = p_0(t+1) - p_0(t) \;\; (t < T-1), \qquad r(T-1) = v, \qquad A(t) = \sum_{k \ge t}
    \tilde r(k)$$

    arXiv 2510.14967 and its released code, with discount 1. With the joint normalisation mean and
    standard deviation (not a sample's) are those of all rewards of the group's steps. With
    `gain_normalization="separate"`, the released code's present default, gains and outcomes have
    their own. In that paper a step is a turn; the last one answers, and ending the turn belongs to
    it. `progress_space="log"` takes gains of $\log p_0$. Deviation: the outcome is the run's
    reward, not F1. A rollout without a step has its outcome alone, at the token that ends it. It
    needs the truth and the outcome.
    """
    exists = rollouts.step_mask & rollouts.is_judged[:, None]
    p = rollouts.truth_plausibility
    if progress_space == "log":
        p = rollouts.truth_logps.clamp(min=LOG_FLOOR)
    last = exists & ~torch.nn.functional.pad(rollouts.step_mask[:, 1:], (0, 1))
    gains = differences(p, rollouts.step_mask)
    # one more column for the outcomes of rollouts without a step
    has_no_step = (rollouts.is_judged & ~rollouts.step_mask.any(dim=1))[:, None]
    exists, last = (torch.cat([part, has_no_step], dim=1) for part in (exists, last))
    gains = torch.nn.functional.pad(gains, (0, 1))
    rewards = torch.where(last, rollouts.outcomes[:, None], gains) * exists
    kinds = [exists] if gain_normalization == "joint" else [exists & ~last, last]
    parts = [_standardized(rewards, kind, rollouts.groups) for kind in kinds]
    rewards = reduce(torch.add, parts)
    from_step_on = rewards.flip(1).cumsum(1).flip(1) * exists
    return StepValues(from_step_on[:, :-1], (rewards * last).sum(dim=1))


def _standardized(
    rewards: Float[Tensor, "batch step"],
    exists: Bool[Tensor, "batch step"],
    groups: Int[Tensor, " batch"],
) -> Float[Tensor, "batch step"]:
    """Standardise the rewards of some steps over each group; 0 for other steps."""
    number = group_sums(exists.to(rewards.dtype).sum(dim=1), groups).clamp(min=1)
    mean = group_sums((rewards * exists).sum(dim=1), groups) / number
    centered = (rewards - mean[:, None]) * exists
    variance = group_sums((centered**2).sum(dim=1), groups) / number
    return centered / ((variance[:, None] + 1e-8).sqrt() + 1e-6)
