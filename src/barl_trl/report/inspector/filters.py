"""The kinds of rollouts that a reader looks for, and which a rollout is of."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .derived import Derived

FILTERS = {
    "wrong_praised": ("wrong but praised", "the mean weight of its tokens is above 0"),
    "right_blamed": ("right but blamed", "the mean weight of its tokens is below 0"),
    "tied_spread": (
        "equal outcomes, weights spread",
        "all outcomes of the group are equal, so GRPO gives 0, but weights of steps differ",
    ),
    "truncated": ("truncated", "it reached the longest length before its end"),
    "no_answer": ("no answer", "no final answer was read"),
    "timed_out": ("timed out", "the grader ran out of time"),
    "differs": (
        "values differ",
        "the recorded step values are not those that the recorded settings give",
    ),
    "right": ("right", "its answer is the truth"),
    "wrong": ("wrong", "its answer is not the truth, or there is none"),
}
"""Name: label, and what it says. Bit k of a rollout's kinds is that of name k."""

_SPREAD = 0.05
"""Least difference between two weights of a group that counts as spread."""


def is_right(record: Mapping[str, Any]) -> bool:
    """Whether a rollout answers the truth; without hypotheses, whether its outcome is above 0."""
    if record["hypotheses"]:
        return record["member"] == 0
    return (record["outcome"] or 0.0) > 0


def mean_weight(record: Mapping[str, Any], derived: Derived) -> float:
    """Return the mean weight of a rollout's tokens; 0 without any."""
    recorded = record["token_weights"]
    if recorded:
        return float(np.mean(recorded))
    sizes = np.diff([0, *record["step_ends"]])
    return float(np.average(derived.weights, weights=sizes)) if sizes.sum() else 0.0


def kinds(group: Sequence[tuple[Mapping[str, Any], Derived]]) -> list[int]:
    """Return the kinds of each rollout of a group, as bits.

    Args:
        group: Records of all rollouts of a prompt, each with its numbers.
    """
    outcomes = {record["outcome"] for record, _ in group}
    weights = np.concatenate([derived.weights for _, derived in group])
    is_spread = len(group) > 1 and len(outcomes) == 1 and weights.size and np.ptp(weights) > _SPREAD
    found = []
    for record, derived in group:
        right, mean = is_right(record), mean_weight(record, derived)
        holds = {
            "wrong_praised": not right and mean > 0,
            "right_blamed": right and mean < 0,
            "tied_spread": is_spread,
            "truncated": record["is_cut_off"],
            "no_answer": record["answer"] is None,
            "timed_out": record["reason"] == "timeout",
            "differs": derived.difference is not None,
            "right": right,
            "wrong": not right,
        }
        found.append(sum(bool(holds[name]) << bit for bit, name in enumerate(FILTERS)))
    return found
