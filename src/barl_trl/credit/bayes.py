r"""The return that is expected under the belief, for tasks that say what observations mean."""

import torch
from jaxtyping import Float
from torch import Tensor

from ..posterior import StepValues
from .rollouts import ScoredRollouts, at_last_state


def bayes(rollouts: ScoredRollouts, *, information_weight: float = 1.0) -> StepValues:
    r"""Give each step the outcome expected under the last belief, and the information gained:

    $$V(t) = \sum_i b_i(T) \, v_i + c \, \frac{H(b(t)) - H(b(T))}{\log H}, \qquad
    V(T) = \sum_i b_i(T) \, v_i$$

    After the Bayesian value in the ablation of arXiv 2505.20561, with v_i the outcome if hypothesis
    i were true, c = `information_weight`, H(b) the entropy of the belief and H the number of
    hypotheses. What the reward takes as costs is added. The first term is the mean of the outcome
    over the truths that all observations leave possible: where prior and likelihoods are right, it
    has the outcome's expectation and, for a rollout by itself, less variance (Rao-Blackwell). The
    second pays for information as such, c for all of it: only c = 0 leaves the gradient unbiased.
    With one hypothesis it is the outcome. It needs the hypotheses, and no truth.
    """
    expected = expected_outcomes(rollouts)
    entropy = belief_entropy(rollouts)
    gained = entropy[:, :-1] - at_last_state(entropy, rollouts.state_mask)[:, None]
    steps = expected[:, None] + information_weight * gained
    return StepValues(steps * rollouts.step_mask, expected)


def expected_outcomes(rollouts: ScoredRollouts) -> Float[Tensor, " batch"]:
    """Return the outcome reward that each rollout expects under its last belief, with its costs."""
    outcomes = rollouts.outcomes_if_true
    last = at_last_state(rollouts.belief, rollouts.state_mask)
    expected = (last.to(outcomes.dtype) * outcomes).sum(dim=1)
    return expected if rollouts.costs is None else expected + rollouts.costs


def belief_entropy(rollouts: ScoredRollouts) -> Float[Tensor, "batch state"]:
    """Return the entropy of the belief as a share of log H, from 0 to 1; 0 for one hypothesis."""
    most = rollouts.hypothesis_mask.sum(dim=1).clamp(min=2).to(rollouts.belief.dtype).log()
    return torch.special.entr(rollouts.belief).sum(dim=-1) / most[:, None]
