"""What is logged of rollouts of several turns: what observations tell, and advice on credits."""

from statistics import fmean
from typing import Any

from accelerate.utils import gather_object
from torch import Tensor

from ...steps import Turn
from ..rollouts.hypothesis_scorer import Scored

_BARL = (
    "credit='barl' with several turns: who asks a question looks no better than who answers at "
    "once. V(t) assumes that a rollout believes what it answered, and that other hypotheses would "
    "have brought the same observations (docs/method.md). credit='belief_critic' assumes neither."
)
_HYPOTHESIS = (
    "outcome_mode='hypothesis' is wrong with several turns: under another hypothesis the "
    "observations would have been others. outcome_mode='ground_truth' is the default."
)
_UNEQUAL = (
    "credit='information_gain' sums over turns, and the rollouts of a batch have {few} to {many}: "
    "with gain_normalization='joint' it pays for few turns. Try 'separate', or another credit."
)
_BY_INDEX = (
    "{name} compares the n-th turns of rollouts, and the rollouts of a batch have {few} to {many}: "
    "that is biased where the model decides when to stop. Try credit='belief_critic'."
)


def observation_gain(truth_belief: Tensor, scored: Scored) -> float | None:
    """Return how much the belief in the truth rises by a turn and its observation, on average.

    Args:
        truth_belief: The belief in the truth at each state of this process's rollouts, (B, T + 1).
        scored: The rollouts.

    Returns:
        The mean over the turns of all processes that brought an observation; None without any.
    """
    gains: list[float] = []
    for truth, ends, turns in zip(truth_belief, scored.step_ends, scored.turns, strict=True):
        stops = {turn.stop for turn in turns if turn.has_observation}
        gains += [(truth[t + 1] - truth[t]).item() for t, end in enumerate(ends) if end in stops]
    gains = gather_object(gains)
    return fmean(gains) if gains else None


def turn_advice(args: Any, local_turns: list[list[Turn]]) -> dict[str, str]:
    """Return warnings of settings that mislead with several turns, by subject.

    Args:
        args: The trainer's settings.
        local_turns: The turns of each of this process's rollouts.
    """
    numbers = [*map(len, local_turns)]
    few, many = min(numbers, default=0), max(numbers, default=0)
    if many < 2:
        return {}
    said, options = {}, args.settings["credit_options"]
    if args.credit == "barl":
        said["turns"] = _BARL
        if options["outcome_mode"] == "hypothesis":
            said["outcome_mode"] = _HYPOTHESIS
    if few < many:
        if args.credit == "information_gain" and options["gain_normalization"] == "joint":
            said["unequal turns"] = _UNEQUAL.format(few=few, many=many)
        if args.credit == "delta_belief" or args.own_credit.credit_baseline == "step":
            is_step = args.own_credit.credit_baseline == "step"
            name = "credit_baseline='step'" if is_step else "credit='delta_belief'"
            said["turns by index"] = _BY_INDEX.format(name=name, few=few, many=many)
    return said
