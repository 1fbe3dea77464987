"""The one way from scored rollouts to the weights of their tokens in the policy gradient.

credit -> baseline -> tokens -> mask -> whitening; the trainer, the page and the experiments use it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..posterior import StepValues
from ..steps import spread_over_tokens
from .baselines import subtract_baseline
from .registry import Credit
from .rollouts import ScoredRollouts
from .turns import with_turn_rewards
from .whitening import whiten


class TokenWeights(NamedTuple):
    """The weights of the tokens of b of the B rollouts, which are those of one process."""

    values: Float[Tensor, "own step"]
    """Values of the rollouts' steps, minus the baseline."""
    unwhitened: Float[Tensor, "own token"]
    """Each token's value; 0 for tokens without a weight."""
    weights: Float[Tensor, "own token"]
    """Each token's value, whitened as the credit says: what the loss multiplies."""
    mask: Bool[Tensor, "own token"]
    """The tokens that have a weight."""


def weigh_steps(
    rollouts: ScoredRollouts, credit: Credit, settings: Mapping[str, Any]
) -> StepValues:
    """Return the values of steps that a credit gives, minus its baseline.

    The arguments are those of [`token_weights`].
    """
    if credit.turn_rewards == "sum":  # of plain RL, for which a rollout is one action
        total = rollouts.outcomes + rollouts.earned.sum(dim=1)
        rollouts = replace(rollouts, outcomes=total)
    step_values = credit.function(rollouts, **credit.settings(settings))
    if credit.turn_rewards == "to_go":
        step_values = with_turn_rewards(step_values, rollouts)
    return subtract_baseline(step_values, rollouts, baseline=credit.credit_baseline)


def token_weights(
    rollouts: ScoredRollouts,
    credit: Credit,
    settings: Mapping[str, Any],
    step_ends: Sequence[Sequence[int]],
    mask: Bool[Tensor, "own token"],
    *,
    start: int = 0,
    sum_over_processes: Callable[[Tensor], Tensor] | None = None,
) -> TokenWeights:
    """Weigh the tokens of b of the B rollouts.

    Args:
        rollouts: All rollouts of the batch, from all processes, in whole groups.
        credit: The credit.
        settings: Values by the name of the setting, of which the estimator gets those it takes.
        step_ends: Ends of the steps of each of the b rollouts, in tokens of its completion.
        mask: The tokens of the b rollouts that may have a weight. Tokens of rollouts that are not
            judged have none.
        start: Index of the first of the b rollouts.
        sum_over_processes: Adds a tensor up over all processes. None: there is one process.
    """
    here = slice(start, start + len(step_ends))
    steps, closing = (values[here] for values in weigh_steps(rollouts, credit, settings))
    mask = mask & rollouts.is_judged[here, None]
    return whitened_tokens(
        StepValues(steps, closing),
        step_ends,
        mask,
        rollouts.groups[here],
        num_groups=int(rollouts.groups.max()) + 1,
        normalization=credit.value_normalization,
        sum_over_processes=sum_over_processes,
    )


def whitened_tokens(
    values: StepValues,
    step_ends: Sequence[Sequence[int]],
    mask: Bool[Tensor, "own token"],
    groups: Int[Tensor, " own"],
    *,
    num_groups: int,
    normalization: str,
    sum_over_processes: Callable[[Tensor], Tensor] | None = None,
) -> TokenWeights:
    """Give each token its step's value, and whiten the values.

    `"batch"` whitens over the rollouts of all processes, `"group"` over those of each of their
    `num_groups` prompts, `"none"` not at all. Other arguments are those of [`token_weights`].
    """
    spread = spread_over_tokens(values.steps, step_ends, values.closing, num_tokens=mask.shape[1])
    weights = unwhitened = spread.masked_fill(~mask, 0.0)
    if normalization != "none":
        groups = torch.zeros_like(groups) if normalization == "batch" else groups
        weights = whiten(
            unwhitened,
            mask,
            groups,
            num_groups=num_groups,
            sum_over_processes=sum_over_processes or (lambda moments: moments),
        )
    return TokenWeights(values.steps, unwhitened, weights, mask)
