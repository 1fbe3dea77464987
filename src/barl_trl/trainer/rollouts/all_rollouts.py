"""`scored_rollouts` gathers the rollouts of all processes, from which credit is estimated."""

from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from ...credit.rollouts import ScoredRollouts
from ...posterior import posterior
from .hypothesis_scorer import Scored
from .rollout_batch import judged


def scored_rollouts(
    accelerator: Accelerator | None,
    scored: Scored,
    outcomes: Tensor,
    *,
    group_size: int,
    beta: float,
) -> ScoredRollouts:
    """Gather the scores of all processes, and compute the posterior at every state.

    Args:
        accelerator: The trainer's accelerator; None means that there is one process.
        scored: The hypotheses of this process's rollouts and their log-likelihoods.
        outcomes: Outcome rewards of all processes' rollouts, (N,), NaN for a missing outcome.
        group_size: Rollouts per prompt.
        beta: Consistency coefficient of the posterior, from 0 to `inf`.

    Returns:
        The rollouts of all processes, in the order of the processes, padded to the most states and
        hypotheses of any rollout.
    """
    logps, state_mask, hypothesis_mask, *_ = scored.likelihoods
    cut_off = torch.tensor(scored.is_cut_off, device=logps.device)
    if accelerator is not None and accelerator.num_processes > 1:
        logps, state_mask, hypothesis_mask, cut_off = (
            _gathered(accelerator, local) for local in (logps, state_mask, hypothesis_mask, cut_off)
        )
    belief = torch.zeros_like(logps)
    if logps.shape[2]:
        belief = posterior(logps, beta=beta, state_mask=state_mask, hypothesis_mask=hypothesis_mask)
    places = range(len(outcomes))
    sets = [scored.sets[n // group_size] for n in places]
    is_judged = judged(sets, outcomes)
    return ScoredRollouts(
        outcomes=outcomes.masked_fill(~is_judged, 0.0),
        is_judged=is_judged,
        is_cut_off=cut_off,
        groups=torch.arange(len(outcomes), device=outcomes.device) // group_size,
        state_mask=state_mask,
        answer_logps=logps,
        hypothesis_mask=hypothesis_mask,
        belief=belief,
        members=[
            hypotheses.members[n % group_size] if hypotheses and hypotheses.members else None
            for n, hypotheses in zip(places, sets, strict=True)
        ],
    )


def _gathered(accelerator: Accelerator, local: Tensor) -> Tensor:
    """Pad a tensor of each process to a common shape, and join them along the first dimension."""
    for dim in range(1, local.ndim):
        padded: Any = accelerator.pad_across_processes(local, dim=dim)
        local = padded.to(local.dtype)
    if local.shape[-1:] == (0,):  # no answer was scored
        return local.new_zeros(len(local) * accelerator.num_processes, *local.shape[1:])
    gathered: Any = accelerator.gather(local)
    return gathered
