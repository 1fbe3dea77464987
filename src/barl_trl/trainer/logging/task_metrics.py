r"""Metrics of what the task says of hypotheses: how far observations move the belief, and whether
it is right.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ...credit.rollouts import LOG_FLOOR, at_last_state
from ...hypotheses import HypothesisSet
from ...posterior import task_belief
from ..rollouts.evidence import Evidence


def evidence_metrics(
    belief: Float[Tensor, "batch state hypothesis"],
    evidence: Evidence,
    state_mask: Bool[Tensor, "batch state"],
    hypothesis_mask: Bool[Tensor, "batch hypothesis"],
    has_truth: Bool[Tensor, " batch"],
    is_observation: Bool[Tensor, "batch step"],
) -> tuple[list[str], Float[Tensor, "metric 2"]]:
    """Sum, over this process's rollouts, what observations did to the belief.

    Args:
        belief: The posterior of this process's rollouts, 0 where padded.
        evidence: What the task says of them.
        state_mask: The states that exist.
        hypothesis_mask: The hypotheses that exist.
        has_truth: Whether hypothesis 0 of a rollout is the truth.
        is_observation: The steps that brought an observation.

    Returns:
        Names, and for each the sum and the number of what is summed: `entropy_before` and
        `entropy_after` (nats), `truth_mass_before` and `truth_mass_after`, `belief_calibration`
        (log score of the truth, in nats), and the shares of observations that are `uninformative`
        (no hypothesis that is still possible loses against another), `contradicted` (no hypothesis
        is left; the belief stays) and `unusable`.
    """
    exists = hypothesis_mask.any(dim=1)
    first, last = belief[:, 0], at_last_state(belief, state_mask)
    before, after = (torch.special.entr(part).sum(dim=1) for part in (first, last))
    log_prior = evidence.log_prior.masked_fill(~hypothesis_mask, -torch.inf)
    weights, is_contradicted = task_belief(log_prior, evidence.observation_logps)
    is_possible = weights[:, :-1] > -torch.inf
    observed = evidence.observation_logps
    most = observed.masked_fill(~is_possible, -torch.inf).amax(dim=2)
    least = observed.masked_fill(~is_possible, torch.inf).amin(dim=2)
    seen = is_observation & exists[:, None]
    has_known_truth = exists & has_truth
    columns: dict[str, tuple[Tensor, Tensor]] = {
        "entropy_before": (before, exists),
        "entropy_after": (after, exists),
        "truth_mass_before": (first[:, 0], has_known_truth),
        "truth_mass_after": (last[:, 0], has_known_truth),
        "belief_calibration": (last[:, 0].log().clamp(min=LOG_FLOOR), has_known_truth),
        "observations_uninformative": (((most == least) & ~is_contradicted).float(), seen),
        "observations_contradicted": (is_contradicted.float(), seen),
    }
    sums = [
        torch.stack([values.where(mask, 0.0).sum(), mask.sum().to(values.dtype)])
        for values, mask in columns.values()
    ]
    unusable = torch.tensor(float(evidence.unusable), device=belief.device)
    sums.append(torch.stack([unusable, seen.sum().to(unusable.dtype)]))
    return [*columns, "observations_unusable"], torch.stack(sums)


def unlabelled_metrics(
    sets: Sequence[HypothesisSet | None], group_size: int, lengths: Sequence[int], first_length: Any
) -> dict[str, float]:
    """Return what shows that training on votes collapses.

    Args:
        sets: Hypotheses of every prompt of the batch that lists none: their prior is the votes.
        group_size: Rollouts per prompt.
        lengths: Tokens of all rollouts' completions.
        first_length: Their mean in the run's first batch.

    Returns:
        For those without a true answer `answer_entropy`, the mean entropy of the answers of a
        prompt's rollouts as a share of the largest; and `length_left`, the mean length as a share
        of that of the first batch. Nothing if all of these prompts have true answers.
    """
    entropies = []
    for hypotheses in sets:
        if hypotheses is None or hypotheses.has_truth:
            continue
        counts = torch.bincount(
            torch.tensor([m for m in hypotheses.members if m is not None], dtype=torch.long)
        )
        shares = counts / counts.sum().clamp(min=1)
        most = torch.tensor(float(max(group_size, 2))).log()
        entropies.append((torch.special.entr(shares).sum() / most).item())
    if not entropies:
        return {}
    return {
        "answer_entropy": sum(entropies) / len(entropies),
        "length_left": sum(lengths) / max(len(lengths), 1) / max(first_length, 1e-9),
    }
