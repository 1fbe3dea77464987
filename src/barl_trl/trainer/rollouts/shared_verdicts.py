"""Verdicts and hypotheses on which all processes agree.

A group of rollouts may straddle processes, and a comparison may time out on one process and not on
another. So whatever is judged is judged by one process and shared.
"""

from collections.abc import Callable, Sequence

from accelerate import PartialState
from accelerate.utils import gather_object

from ...hypotheses import HypothesisSet
from ...rewards import AccuracyReward, Completion


def share_verdicts(
    reward: AccuracyReward, completions: Sequence[Completion], solutions: Sequence[str]
) -> None:
    """Judge each answer of all processes' rollouts on one process, and tell all."""
    rank, world = PartialState().process_index, PartialState().num_processes
    if world == 1:
        return
    pairs = dict.fromkeys(gather_object(reward.pairs(completions, solutions)))
    pairs = [pair for pair in pairs if None not in pair]
    judged = reward.grader.verify_all(pairs[rank::world])
    for verdicts in gather_object([judged]):
        reward.grader.remember(verdicts)


def share_hypotheses(
    local_answers: Sequence[str | None],
    local_truths: Sequence[str],
    merge: Callable[[str, list[str | None]], HypothesisSet | None],
    *,
    group_size: int,
) -> tuple[list[str | None], list[HypothesisSet | None]]:
    """Merge each group's answers on one process.

    Args:
        local_answers: Answer of each rollout of this process.
        local_truths: True answer of each.
        merge: The true answer and a group's answers -> its hypotheses, as [`merge_hypotheses`].
        group_size: Rollouts of one prompt; all processes' rollouts, in order, fall into groups.

    Returns:
        The answer of every rollout and the hypothesis set of every group, of all processes.
    """
    rank, world = PartialState().process_index, PartialState().num_processes
    pairs = gather_object(list(zip(local_answers, local_truths, strict=True)))
    answers = [answer for answer, _ in pairs]
    merged = {
        g: merge(pairs[g * group_size][1], answers[g * group_size : (g + 1) * group_size])
        for g in range(rank, len(pairs) // group_size, world)
    }
    shared = gather_object([merged])
    return answers, [shared[g % world][g] for g in range(len(pairs) // group_size)]
