"""The kinds of rollouts by which a reader can filter, and the kinds of each rollout."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..credit import CREDITS
from .derived import Derived, Members, has_truth, own_tokens

FILTERS = {
    "wrong_praised": ("wrong but praised", "the mean weight of its tokens is above 0"),
    "right_blamed": ("right but blamed", "the mean weight of its tokens is below 0"),
    "tied_spread": (
        "equal outcomes, weights spread",
        "all outcomes of the group are equal, so GRPO gives 0, but the weights differ",
    ),
    "truncated": ("truncated", "it reached the longest length before its end"),
    "no_answer": ("no answer", "no final answer was read"),
    "timed_out": ("timed out", "the grader ran out of time"),
    "asked_nothing": ("asked nothing", "an agent that took one turn and called no tool"),
    "ended_in_call": ("ended in a call", "it called a tool and did not get the result"),
    "differs": (
        "values differ",
        "the recorded values are not those that the recorded settings give",
    ),
    "right": ("right", "its answer is the truth"),
    "wrong": ("wrong", "its answer is not the truth, or it has none"),
    "no_truth": ("no truth known", "its prompt has no true answer: it is neither right nor wrong"),
}
"""Name of a kind -> its label and its explanation. Bit k of a rollout's kinds is for the k-th."""

_SPREAD = 0.05
"""Weights of a group count as spread if the largest minus the smallest exceeds this."""


def _is_right(record: Mapping[str, Any], are_compared: bool, is_judged: bool) -> bool | None:
    """Return whether a rollout's answer is the truth; None if the prompt has no truth.

    Where answers were not compared with the truth, it is taken to be the truth if the outcome is
    above 0. That says nothing if no reward judges the answer.
    """
    # where the run scored answers, but none of this prompt, the outcome does not replace the truth
    has_substitute = record["outcome"] is not None and record["scored_tokens"] is None
    if not has_truth(record) or (record["solution"] is None and not has_substitute):
        return None
    size = len(record["hypotheses"] or ())
    if record["member"] is not None or size > 1 or (size and are_compared):
        return record["member"] == 0
    return (record["outcome"] or 0.0) > 0 if is_judged else None


def mean_weight(record: Mapping[str, Any], derived: Derived) -> float:
    """Return the mean weight of the tokens that the model wrote in a rollout; 0 without any."""
    recorded = record["token_weights"]
    if recorded:
        return float(np.sum(recorded) / max(1, own_tokens(record).sum()))
    sizes = np.diff([0, *record["step_ends"]])
    return float(np.average(derived.weights, weights=sizes)) if sizes.sum() else 0.0


def kinds(group: Members, settings: Mapping[str, Any]) -> list[int]:
    """Return the kinds of each rollout of a group, as bits in the order of [`FILTERS`]."""
    returns = {r["outcome"] if derived.total is None else derived.total for r, derived in group}
    weights = np.concatenate([derived.weights for _, derived in group])
    is_tied = len(group) > 1 and len(returns) == 1 and returns != {None}
    is_spread = is_tied and weights.size and np.ptp(weights) > _SPREAD
    credit = CREDITS.get(str(settings.get("credit")))
    are_compared = credit is not None and credit.hypotheses == "rollouts"
    group_kinds = []
    for record, derived in group:
        # neither a cost nor the sum of the turns' rewards judges the answer
        others = sum(record[name] is not None for name in ("cost", "turn_rewards"))
        is_judged = len(record["rewards"]) > others
        right, mean = _is_right(record, are_compared, is_judged), mean_weight(record, derived)
        holds = {
            "wrong_praised": right is False and mean > 0,
            "right_blamed": right and mean < 0,
            "tied_spread": is_spread,
            "truncated": record["is_cut_off"],
            "no_answer": record["answer"] is None and (is_judged or derived.w is not None),
            "timed_out": record["reason"] == "timeout",
            "asked_nothing": record["ended_in_call"] is False
            and not record["ended_by_tool"]
            and record["own_tokens"] is None,
            "ended_in_call": record["ended_in_call"],
            "differs": derived.difference is not None,
            "right": right,
            "wrong": right is False,
            "no_truth": right is None,
        }
        group_kinds.append(sum(bool(holds[name]) << bit for bit, name in enumerate(FILTERS)))
    return group_kinds
