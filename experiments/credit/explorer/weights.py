"""Weights for the steps of the explorer: the package's own.

Its rollouts become [`ScoredRollouts`], as one scoring pass makes them in the trainer. Estimator,
baseline and whitening over tokens are the trainer's too.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from barl_trl.credit.rollouts import ScoredRollouts
from barl_trl.posterior import StepValues, posterior
from barl_trl.whitening import whiten

from ..arms import CreditArm
from .simulation import Rollouts


def scored_rollouts(rollouts: Rollouts, arm: CreditArm) -> ScoredRollouts:
    """Return what a scoring pass would say.

    An answer has two tokens, a candidate of plausibility q and a certain one, so its log-likelihood
    is log q by sum, log(q) / 2 by mean and log((q + 1) / 2) by token mean. The hypothesis axis has
    all candidates; those exist that are the truth or a rollout's answer in the group.
    """
    credit = arm.credit_in_use
    plausibility = torch.from_numpy(rollouts.guesses)
    groups, answers = torch.from_numpy(rollouts.groups), torch.from_numpy(rollouts.answers)
    is_cut_off = answers < 0
    state_mask = torch.from_numpy(rollouts.step_tokens > 0)
    state_mask = torch.nn.functional.pad(state_mask, (1, 0), value=True)
    width = {"rollouts": plausibility.shape[2], "truth": 1, "none": 0}[credit.hypotheses]

    in_group = torch.zeros(int(groups.max()) + 1, plausibility.shape[2], dtype=torch.bool)
    in_group[:, 0] = True
    in_group[groups[~is_cut_off], answers[~is_cut_off]] = True
    hypothesis_mask = in_group[groups, :width]
    answer_logps = {
        "sum": plausibility.log(),
        "mean": plausibility.log() / 2,
        "token_mean": ((plausibility + 1) / 2).log(),
    }[credit.answer_likelihood][..., :width]
    exists = state_mask[..., None] & hypothesis_mask[:, None]
    answer_logps = answer_logps.masked_fill(~exists, 0.0)
    belief = answer_logps
    if width:
        belief = posterior(
            answer_logps,
            beta=arm.consistency_beta,
            state_mask=state_mask,
            hypothesis_mask=hypothesis_mask,
        )
    return ScoredRollouts(
        outcomes=torch.from_numpy(rollouts.outcomes),
        is_judged=torch.ones_like(is_cut_off),
        is_cut_off=is_cut_off,
        groups=groups,
        state_mask=state_mask,
        answer_logps=answer_logps,
        hypothesis_mask=hypothesis_mask,
        belief=belief,
        members=[answer if 0 <= answer < width else None for answer in answers.tolist()],
    )


def step_weights(rollouts: Rollouts, arm: CreditArm) -> Float[Tensor, "batch step"]:
    """Return the weight that an arm gives to the tokens of each step; 0 in padding."""
    normalization = arm.credit_in_use.value_normalization
    scored = scored_rollouts(rollouts, arm)
    values = arm.values(scored)
    if normalization == "none":
        return values.steps
    groups = torch.zeros_like(scored.groups) if normalization == "batch" else scored.groups
    return _whitened_over_tokens(values, rollouts, groups) * scored.step_mask


def _whitened_over_tokens(
    values: StepValues, rollouts: Rollouts, groups: Int[Tensor, " batch"]
) -> Float[Tensor, "batch step"]:
    """Spread the values over tokens, whiten these, and return those in which steps begin."""
    sizes, lengths = torch.from_numpy(rollouts.step_tokens), torch.from_numpy(rollouts.num_tokens)
    ends = sizes.cumsum(dim=1)
    places = torch.arange(int(lengths.max())).expand(len(sizes), -1).contiguous()
    step_of = torch.searchsorted(ends, places, right=True)  # after the last one the turn ends
    of_tokens = torch.cat([values.steps, values.closing[:, None]], dim=1).gather(1, step_of)
    whitened = whiten(
        of_tokens,
        places < lengths[:, None],
        groups,
        num_groups=int(groups.max()) + 1,
        sum_over_processes=lambda moments: moments,
    )
    return whitened.gather(1, (ends - sizes).clamp(max=places.shape[1] - 1))


def gradient(rollouts: Rollouts, arm: CreditArm) -> Float[np.ndarray, " parameter"]:
    """Return the derivative of the weighted log-likelihood, per token."""
    weights = step_weights(rollouts, arm).numpy()
    return (weights[..., None] * rollouts.scores).sum(axis=(0, 1)) / rollouts.num_tokens.sum()
