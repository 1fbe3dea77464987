"""`likeliest` chooses which of a rollout's hypotheses are shown."""

from typing import Any

import numpy as np

_ALL = 12
_SHOWN = 10


def likeliest(belief: Any, *always: int | None) -> list[int]:
    """Return the hypotheses of a rollout that are shown: all of twelve, the likeliest of more.

    Args:
        belief: Belief in each hypothesis at each state, (S, H).
        *always: Hypotheses that are shown however little they are believed.

    Returns:
        Ascending indices of all hypotheses if there are at most twelve; else of the ten whose
        belief at any state is the largest, the first of equals, and of those in `always`.
    """
    belief = np.asarray(belief)
    if belief.shape[1] <= _ALL:
        return [*range(belief.shape[1])]
    order = np.argsort(-belief.max(axis=0), kind="stable")[:_SHOWN].tolist()
    return sorted({*order, *(i for i in always if i is not None)})
