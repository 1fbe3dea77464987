"""Weights for the steps of the explorer, computed by the package.

The explorer's rollouts become [`ScoredRollouts`], as the trainer's do after one scoring pass. They
are weighed by the same estimator, baseline and whitening over tokens.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from barl_trl.credit.rollouts import ScoredRollouts
from barl_trl.credit.token_weights import token_weights
from barl_trl.posterior import posterior

from ..arms import CreditArm
from .simulation import Rollouts


def scored_rollouts(rollouts: Rollouts, arm: CreditArm) -> ScoredRollouts:
    """Return the rollouts as a scoring pass would.

    An answer has two tokens, a candidate of plausibility q and a certain one, so its log-likelihood
    is log q by sum, log(q) / 2 by mean and log((q + 1) / 2) by token mean. The hypothesis axis has
    all candidates; only the truth and the answers of the group's rollouts exist.
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
    scored = scored_rollouts(rollouts, arm)
    sizes, lengths = torch.from_numpy(rollouts.step_tokens), torch.from_numpy(rollouts.num_tokens)
    ends = sizes.cumsum(dim=1)
    step_ends = [row[exists].tolist() for row, exists in zip(ends, scored.step_mask, strict=True)]
    places = torch.arange(int(lengths.max()))
    mask = places < lengths[:, None]
    weighed = token_weights(scored, arm.credit_in_use, arm.settings, step_ends, mask)
    begins = (ends - sizes).clamp(max=len(places) - 1)
    return weighed.weights.gather(1, begins) * scored.step_mask


def gradient(rollouts: Rollouts, arm: CreditArm) -> Float[np.ndarray, " parameter"]:
    """Return the derivative of the weighted log-likelihood, per token."""
    weights = step_weights(rollouts, arm).numpy()
    return (weights[..., None] * rollouts.scores).sum(axis=(0, 1)) / rollouts.num_tokens.sum()
