"""Baselines: what is subtracted from the values of steps, so that they compare rollouts."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from ..posterior import StepValues
from .belief_critic import belief_features, fitted_critic
from .rollouts import ScoredRollouts, group_sums


def subtract_baseline(values: StepValues, rollouts: ScoredRollouts, *, baseline: str) -> StepValues:
    """Subtract from each value the mean of comparable rollouts.

    A rollout enters a mean with the mean over its steps, or with its closing value if it has no
    step.

    Args:
        values: Values of steps and of the end of the turn, as an estimator returns them.
        rollouts: The rollouts.
        baseline: `"none"` subtracts nothing. `"batch"` subtracts the mean over all rollouts,
            `"group"` the mean over the prompt's rollouts. `"leave_one_out"` subtracts the mean over
            the prompt's other rollouts, which leaves the gradient unbiased. `"step"` subtracts the
            mean of the values that the prompt's other rollouts have at the same step. `"state"`
            subtracts the mean of those at all of their steps that begin in the same state, whenever
            that is, as the groups of arXiv 2505.10978 do. `"belief"` subtracts a fit to the values
            of the batch's other prompts, by [`fitted_critic`] on [`belief_features`]. Where none
            has such a step, and with one prompt, these subtract what `"leave_one_out"` does. With
            these three, the end of a rollout has the baseline of its last step, and counts as the
            first step if there is none: going on has the same baseline as ending.

    Returns:
        Values; 0 in padding and where a rollout is not judged.

    Raises:
        ValueError: `baseline` is unknown, or it is `"state"` and the states are not known.
    """
    judged = rollouts.is_judged
    steps = values.steps * (rollouts.step_mask & judged[:, None])
    closing = values.closing * judged
    if baseline == "none":
        return StepValues(steps, closing)
    number = rollouts.step_mask.sum(dim=1)
    means = torch.where(number > 0, steps.sum(dim=1) / number.clamp(min=1), closing)
    if baseline == "batch":
        of_steps = of_closing = (means.sum() / judged.sum().clamp(min=1)).expand_as(means)
    elif baseline == "group":
        total, count = (group_sums(x, rollouts.groups) for x in (means, judged.to(means.dtype)))
        of_steps = of_closing = total / count.clamp(min=1)
    elif baseline in ("leave_one_out", "step", "state", "belief"):
        of_steps = of_closing = _of_others(means, judged, rollouts)[0]
    else:
        raise ValueError(f"baseline must be one that credit_baseline takes, got {baseline!r}.")
    of_steps = of_steps[:, None].expand_as(steps)
    if baseline in ("step", "state", "belief"):
        padding = (0, int(steps.shape[1] == 0))
        places = torch.arange(max(1, steps.shape[1]), device=steps.device)
        first = (places == 0) & (number == 0)[:, None]  # to end without a step
        actions = torch.where(first, closing[:, None], pad(steps, padding))
        exists = (pad(rollouts.step_mask, padding) | first) & judged[:, None]
        if baseline == "belief":
            comparable, others = _fitted(StepValues(steps, closing), rollouts)
        else:
            compare = _of_others if baseline == "step" else _in_same_state
            comparable, others = compare(actions, exists, rollouts)
        of_actions = torch.where(others > 0, comparable, of_closing[:, None])
        of_steps = of_actions[:, : steps.shape[1]]
        of_closing = of_actions.gather(1, (number - 1).clamp(min=0)[:, None])[:, 0]
    return StepValues(
        (steps - of_steps) * (rollouts.step_mask & judged[:, None]), (closing - of_closing) * judged
    )


def _of_others(
    values: Float[Tensor, "batch *rest"],
    exists: Bool[Tensor, "batch *rest"],
    rollouts: ScoredRollouts,
) -> tuple[Float[Tensor, "batch *rest"], Float[Tensor, "batch *rest"]]:
    """Return the mean over the group's other rollouts at the same place, and their number."""
    weights = exists.to(values.dtype)
    others = group_sums(weights, rollouts.groups) - weights
    total = group_sums(values * weights, rollouts.groups) - values * weights
    return total / others.clamp(min=1), others


def _in_same_state(
    values: Float[Tensor, "batch step"],
    exists: Bool[Tensor, "batch step"],
    rollouts: ScoredRollouts,
) -> tuple[Float[Tensor, "batch step"], Float[Tensor, "batch step"]]:
    """Return, for each step, the mean of those of its group's other rollouts that begin in the same
    state, and their number.
    """
    states = rollouts.states
    if states is None:
        raise ValueError("baseline 'state' needs rollouts.states, got None: 'step' needs none.")
    weights = exists.to(values.dtype)
    places = torch.arange(len(values), device=values.device)

    def numbered(owners: Tensor) -> Tensor:
        pairs = torch.stack([owners[:, None].expand_as(states), states], dim=-1)
        return pairs.flatten(0, 1).unique(dim=0, return_inverse=True)[1]

    of_group, own = numbered(rollouts.groups), numbered(places)

    def of_others(x: Tensor) -> Tensor:
        flat = x.flatten()
        return (group_sums(flat, of_group) - group_sums(flat, own)).view_as(x)

    others = of_others(weights)
    return of_others(values * weights) / others.clamp(min=1), others


def _fitted(
    values: StepValues, rollouts: ScoredRollouts
) -> tuple[Float[Tensor, "batch state"], Float[Tensor, "batch 1"]]:
    """Return what the belief predicts of values, and how many rollouts of other prompts say it."""
    last = rollouts.state_mask.sum(dim=1, keepdim=True) - 1
    of_states = pad(values.steps, (0, 1)).scatter(1, last, values.closing[:, None])
    fitted = fitted_critic(belief_features(rollouts), of_states, rollouts).to(values.steps.dtype)
    judged = rollouts.is_judged.to(fitted.dtype)
    return fitted, (judged.sum() - group_sums(judged, rollouts.groups))[:, None]
