"""Estimators that give every step the outcome: plain RL, for which nothing is scored."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..posterior import StepValues
from .rollouts import ScoredRollouts, group_sums


def outcome(rollouts: ScoredRollouts) -> StepValues:
    """Give each step the outcome reward v of its rollout.

    With the baseline `leave_one_out` it is RLOO (arXiv 2402.14740).
    """
    return for_all_steps(rollouts.outcomes, rollouts)


def grpo(rollouts: ScoredRollouts) -> StepValues:
    r"""Give each step its rollout's outcome standardised in the group:

    $$A = (v - \mathrm{mean}) / (\mathrm{std} + 10^{-4})$$

    arXiv 2402.03300; it is TRL's advantage with `scale_rewards="group"`.
    """
    rewards = standardized_in_group(rollouts.outcomes, rollouts.groups, rollouts.is_judged)
    return for_all_steps(rewards, rollouts)


def for_all_steps(rewards: Float[Tensor, " batch"], rollouts: ScoredRollouts) -> StepValues:
    """Give each step, and the end of the turn, the reward of its rollout."""
    return StepValues(rewards[:, None] * rollouts.step_mask, rewards)


def standardized_in_group(
    rewards: Float[Tensor, " batch"], groups: Int[Tensor, " batch"], counts: Bool[Tensor, " batch"]
) -> Float[Tensor, " batch"]:
    r"""Return $(r - \mathrm{mean}) / (\mathrm{std} + 10^{-4})$ of each rollout that counts.

    Mean and standard deviation (of a sample) are those of the counted rollouts of its group.
    Rollouts that do not count, and those of a tied group, get 0.
    """
    counted = counts.to(rewards.dtype)
    number = group_sums(counted, groups)
    mean = group_sums(rewards * counted, groups) / number.clamp(min=1)
    centered = (rewards - mean) * counted
    variance = group_sums(centered**2, groups) / (number - 1).clamp(min=1)
    return centered / (variance.sqrt() + 1e-4)
