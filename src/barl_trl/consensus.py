"""Verdicts and hypotheses on which all processes agree.

A group of rollouts may straddle processes, and a comparison may time out on one process and not on
another: whatever is judged is judged by one process and shared.
"""

from collections.abc import Callable, Sequence

from accelerate import PartialState
from accelerate.utils import gather_object

from .answers import HypothesisSet
from .rewards import AccuracyReward, Completion, whole


def share_verdicts(
    reward: AccuracyReward, completions: Sequence[Completion], solutions: Sequence[str]
) -> None:
    """Have each answer of all processes' rollouts judged by one of them, and the verdicts known to
    all.
    """
    rank, world = PartialState().process_index, PartialState().num_processes
    if world == 1:
        return
    pairs = list(dict.fromkeys(whole(gather_object(reward.pairs(completions, solutions)))))
    judged = reward.grader.verify_all(pairs[rank::world])
    for verdicts in gather_object([judged]):
        reward.grader.remember(verdicts)


def share_hypotheses(
    own_answers: Sequence[str | None],
    own_truths: Sequence[str],
    merge: Callable[[str, list[str | None]], HypothesisSet | None],
    *,
    group_size: int,
) -> tuple[list[str | None], list[HypothesisSet | None]]:
    """Merge each group's answers on one process.

    Args:
        own_answers: Answer of each rollout of this process.
        own_truths: True answer of each.
        merge: The true answer and a group's answers -> its hypotheses, as [`merge_hypotheses`].
        group_size: Rollouts of one prompt; all processes' rollouts, in order, fall into groups.

    Returns:
        The answer of every rollout and the hypothesis set of every group, of all processes.
    """
    rank, world = PartialState().process_index, PartialState().num_processes
    pairs = gather_object(list(zip(own_answers, own_truths, strict=True)))
    answers = [answer for answer, _ in pairs]
    own = {
        g: merge(pairs[g * group_size][1], answers[g * group_size : (g + 1) * group_size])
        for g in range(rank, len(pairs) // group_size, world)
    }
    shared = gather_object([own])
    return answers, [shared[g % world][g] for g in range(len(pairs) // group_size)]
