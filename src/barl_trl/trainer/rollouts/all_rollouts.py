"""`scored_rollouts` gathers the rollouts of all processes, from which credit is estimated."""

from dataclasses import replace
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from ...credit.rollouts import ScoredRollouts, is_answered
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
    belief: str = "model",
    costs: Tensor | None = None,
    outcome_scale: float = 1.0,
    needs_truth: bool = True,
) -> ScoredRollouts:
    """Gather the scores of all processes, and compute the posterior at every state.

    Args:
        accelerator: The trainer's accelerator; None means that there is one process.
        scored: The hypotheses of this process's rollouts and their log-likelihoods.
        outcomes: Outcome rewards of all processes' rollouts, (N,), NaN for a missing outcome.
        group_size: Rollouts per prompt.
        beta: Consistency coefficient of the posterior, from 0 to `inf`.
        belief: Where the belief comes from: `"model"`, `"task"` or `"both"`. With `"task"` the
            plausibilities are the task's own: a hypothesis is as plausible as it is believed.
        costs: The part of the outcome rewards that does not depend on what is true, (N,).
        outcome_scale: Outcome reward of a right answer.
        needs_truth: Whether a rollout without a true answer or without an outcome is not judged.

    Returns:
        The rollouts of all processes, in the order of the processes, padded to the most states and
        hypotheses of any rollout.
    """
    logps, state_mask, hypothesis_mask, *_ = scored.likelihoods
    if belief == "task":
        sizes = [0 if one is None else len(one.answers) for one in scored.local_sets]
        numbers = torch.arange(max([1, *sizes]), device=logps.device)
        hypothesis_mask = numbers < torch.tensor(sizes, device=logps.device)[:, None]
    cut_off = torch.tensor(scored.is_cut_off, device=logps.device)
    tensors: Any = [logps, state_mask, hypothesis_mask, cut_off, *(scored.evidence or ())[:4]]
    if accelerator is not None and accelerator.num_processes > 1:
        tensors = [None if one is None else _gathered(accelerator, one) for one in tensors]
    logps, state_mask, hypothesis_mask, cut_off, *evidence = tensors
    log_prior, observed, rewards, outcomes_under = evidence or [None] * 4
    places = range(len(outcomes))
    sets = [scored.sets[n // group_size] for n in places]
    is_judged = judged(sets, outcomes if needs_truth else torch.zeros_like(outcomes))
    weights = torch.zeros_like(logps)
    if hypothesis_mask.shape[1]:
        settings: Any = {
            "rewards": rewards,
            "log_prior": log_prior,
            "observation_logps": observed if belief != "model" else None,
            "state_mask": state_mask,
            "hypothesis_mask": hypothesis_mask,
        }
        plausibilities = None if belief == "task" else logps
        weights = posterior(plausibilities, beta=beta, **settings)
        has_truth = torch.tensor([one is None or one.has_truth for one in sets])
        if not has_truth.all():  # without a truth no reward is observed
            without = posterior(plausibilities, beta=0.0, **settings)
            weights = torch.where(has_truth.to(weights.device)[:, None, None], weights, without)
    if belief == "task":
        exists = state_mask[..., None] & hypothesis_mask[:, None]
        logps = weights.log().masked_fill(~exists, 0.0)
    if outcomes_under is not None:
        outcomes_under = outcomes_under * outcome_scale
    rollouts = ScoredRollouts(
        outcomes=outcomes.masked_fill(~is_judged, 0.0).nan_to_num(),
        is_judged=is_judged,
        is_cut_off=cut_off,
        groups=torch.arange(len(outcomes), device=outcomes.device) // group_size,
        state_mask=state_mask,
        answer_logps=logps,
        hypothesis_mask=hypothesis_mask,
        belief=weights,
        members=[
            hypotheses.members[n % group_size] if hypotheses and hypotheses.members else None
            for n, hypotheses in zip(places, sets, strict=True)
        ],
        rewards=rewards,
        outcomes_under=outcomes_under,
        costs=costs,
    )
    if outcomes_under is None and outcome_scale != 1.0:
        return replace(rollouts, outcomes_under=is_answered(rollouts) * outcome_scale)
    return rollouts


def _gathered(accelerator: Accelerator, local: Tensor) -> Tensor:
    """Pad a tensor of each process to a common shape, and join them along the first dimension."""
    for dim in range(1, local.ndim):
        padded: Any = accelerator.pad_across_processes(local, dim=dim)
        local = padded.to(local.dtype)
    if local.shape[-1:] == (0,):  # no answer was scored
        return local.new_zeros(len(local) * accelerator.num_processes, *local.shape[1:])
    gathered: Any = accelerator.gather(local)
    return gathered
