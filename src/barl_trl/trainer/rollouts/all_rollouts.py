"""The scored rollouts of all processes, as estimators of credit see them."""

from collections.abc import Sequence
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
    completion_ids: Sequence[Sequence[int]],
    *,
    group_size: int,
    beta: float,
) -> ScoredRollouts:
    """Gather what the processes scored, and form the belief.

    Args:
        accelerator: The trainer's; `None`: there is one process.
        scored: What this process scored.
        outcomes: Outcome rewards of all processes' rollouts, (N,); NaN without one.
        completion_ids: Token ids of this process's rollouts.
        group_size: Rollouts per prompt.
        beta: Consistency coefficient of the belief, from 0 to `inf`.

    Returns:
        The rollouts of all processes, in their order; with padding to the longest of all.
    """
    logps, state_mask, hypothesis_mask, *_ = scored.likelihoods
    lengths = [ends[-1] if ends else 0 for ends in scored.step_ends]
    has_no_end = [n == len(ids) for n, ids in zip(lengths, completion_ids, strict=True)]
    cut_off = torch.tensor(has_no_end, device=logps.device)
    if accelerator is not None and accelerator.num_processes > 1:
        logps, state_mask, hypothesis_mask, cut_off = (
            _gathered(accelerator, values)
            for values in (logps, state_mask, hypothesis_mask, cut_off)
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
            found.members[n % group_size] if found and found.members else None
            for n, found in zip(places, sets, strict=True)
        ],
    )


def _gathered(accelerator: Accelerator, values: Tensor) -> Tensor:
    for dim in range(1, values.ndim):
        padded: Any = accelerator.pad_across_processes(values, dim=dim)
        values = padded.to(values.dtype)
    if values.shape[-1:] == (0,):  # nothing was scored
        return values.new_zeros(len(values) * accelerator.num_processes, *values.shape[1:])
    gathered: Any = accelerator.gather(values)
    return gathered
