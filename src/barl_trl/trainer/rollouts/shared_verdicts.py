"""Verdicts and hypotheses on which all processes agree.

A group of rollouts may lie on several processes, and a comparison may time out on one process and
not on another. So one process judges each answer, and shares its verdict with the others.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from accelerate import PartialState
from accelerate.utils import gather_object

from ...hypotheses import GivenHypotheses, HypothesisSet
from ...rewards import AccuracyReward, Completion, GivenAnswer


class RowHypotheses(NamedTuple):
    """What the row of a prompt says of its hypotheses."""

    truth: str | None
    """The true answer; None if there is none, and none is needed."""
    given: GivenHypotheses | None
    """The hypotheses that the row lists."""


def share_verdicts(
    reward: AccuracyReward,
    completions: Sequence[Completion],
    solutions: Sequence[Any],
    given_answers: Sequence[GivenAnswer | None] | None = None,
) -> None:
    """Judge each answer of all processes' rollouts on one process, and share the verdicts.

    Args:
        reward: The reward, whose grader remembers the verdicts.
        completions: This process's completions.
        solutions: Solution of each of these completions.
        given_answers: The answers that environments or a `rollout_func` tell.
    """
    rank, world = PartialState().process_index, PartialState().num_processes
    if world == 1:
        return
    pairs = dict.fromkeys(gather_object(reward.pairs(completions, solutions, given_answers)))
    pairs = [pair for pair in pairs if None not in pair]
    judged = reward.grader.verify_all(pairs[rank::world])
    for verdicts in gather_object([judged]):
        reward.grader.remember(verdicts)


def share_hypotheses(
    local_answers: Sequence[str | None],
    local_rows: Sequence[RowHypotheses | None],
    merge: Callable[[RowHypotheses, list[str | None]], HypothesisSet | None],
    *,
    group_size: int,
) -> tuple[list[str | None], list[HypothesisSet | None], list[GivenHypotheses | None]]:
    """Merge each group's answers into hypotheses on one process, and share the hypotheses.

    Args:
        local_answers: Answer of each rollout of this process.
        local_rows: What the row of each of these rollouts says; None but for the first rollout
            of a group.
        merge: What a row says, and its group's answers -> the group's hypotheses.
        group_size: Rollouts per prompt. The rollouts of all processes, in the order of the
            processes, are divided into groups of this size.

    Returns:
        The answer of every rollout, and of every group the hypothesis set and what its row lists;
        all of all processes.
    """
    rank, world = PartialState().process_index, PartialState().num_processes
    pairs = gather_object(list(zip(local_answers, local_rows, strict=True)))
    answers = [answer for answer, _ in pairs]
    of_groups = [row for _, row in pairs[::group_size]]
    merged = {
        g: merge(of_groups[g], answers[g * group_size : (g + 1) * group_size])
        for g in range(rank, len(of_groups), world)
    }
    shared = gather_object([merged])
    sets = [shared[g % world][g] for g in range(len(of_groups))]
    return answers, sets, [row.given for row in of_groups]
