"""Baselines: what is subtracted from the values of steps, so that they compare rollouts."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from ..posterior import StepValues
from .belief_critic import belief_features, fitted_critic
from .rollouts import ScoredRollouts, at_last_state, group_sums


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
            mean of the values that the prompt's other rollouts have at the same step, or at their
            end. `"state"` subtracts the mean of those at all of their steps that begin in the same
            state, whenever that is, as the groups of arXiv 2505.10978 do. `"belief"` subtracts a
            fit to the values of the batch's other prompts, by [`fitted_critic`] on
            [`belief_features`]. Where none has such a step, and with one prompt, these subtract
            what `"leave_one_out"` does.

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
        of_steps = of_closing = _of_others(means, judged.to(means.dtype), rollouts)[0]
    else:
        raise ValueError(
            "baseline must be 'none', 'batch', 'group', 'leave_one_out', 'step', 'state' or "
            f"'belief', got {baseline!r}: 'leave_one_out' is RLOO's."
        )
    of_steps = of_steps[:, None].expand_as(steps)
    if baseline in ("step", "state"):
        exists = (rollouts.step_mask & judged[:, None]).to(steps.dtype)
        means_of = _of_others if baseline == "step" else _in_same_state
        comparable, others = means_of(steps, exists, rollouts)
        of_steps = torch.where(others > 0, comparable, of_steps)
        of_closing = _of_others(closing, judged.to(closing.dtype), rollouts)[0]
    if baseline == "belief":
        fitted, others = _fitted(StepValues(steps, closing), rollouts)
        of_steps = torch.where(others[:, None] > 0, fitted.steps, of_steps)
        of_closing = torch.where(others > 0, fitted.closing, of_closing)
    return StepValues(
        (steps - of_steps) * (rollouts.step_mask & judged[:, None]), (closing - of_closing) * judged
    )


def _of_others(
    values: Float[Tensor, "batch *rest"],
    weights: Float[Tensor, "batch *rest"],
    rollouts: ScoredRollouts,
) -> tuple[Float[Tensor, "batch *rest"], Float[Tensor, "batch *rest"]]:
    """Return, for each rollout, the weighted mean of its group's others, and the sum of weights."""
    others = group_sums(weights, rollouts.groups) - weights
    total = group_sums(values * weights, rollouts.groups) - values * weights
    return total / others.clamp(min=1), others


def _in_same_state(
    values: Float[Tensor, "batch step"],
    weights: Float[Tensor, "batch step"],
    rollouts: ScoredRollouts,
) -> tuple[Float[Tensor, "batch step"], Float[Tensor, "batch step"]]:
    """Return, for each step, the weighted mean of those of its group's other rollouts that begin in
    the same state, and the sum of weights.
    """
    states = rollouts.states
    if states is None:
        raise ValueError("baseline 'state' needs rollouts.states, got None: 'step' needs none.")
    if not values.numel():
        return values, weights
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
) -> tuple[StepValues, Float[Tensor, " batch"]]:
    """Return what the belief predicts of values, and how many rollouts of other prompts say it."""
    last = rollouts.state_mask.sum(dim=1, keepdim=True) - 1
    of_states = pad(values.steps, (0, 1)).scatter(1, last, values.closing[:, None])
    fitted = fitted_critic(belief_features(rollouts), of_states, rollouts).to(values.steps.dtype)
    judged = rollouts.is_judged.to(fitted.dtype)
    others = judged.sum() - group_sums(judged, rollouts.groups)
    return StepValues(fitted[:, :-1], at_last_state(fitted, rollouts.state_mask)), others
