"""The hypotheses that the rows of a data set list, with their prior weights."""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .answers import plain_text, why_inadmissible


@dataclass(frozen=True)
class GivenHypotheses:
    """The hypotheses that a row of a data set lists.

    Attributes:
        weights: Text of each hypothesis -> its prior weight, greater than 0.
        dropped: Number of texts that may not become hypotheses, by reason (see
            [`why_inadmissible`]; `"no_text"` for a cell that is none).
        is_prior_unusable: Whether the row has prior weights that cannot be used.
    """

    weights: Mapping[str, float]
    dropped: Mapping[str, int]
    is_prior_unusable: bool = False


def given_hypotheses(
    texts: Any, weights: Any = None, *, max_chars: int, special_tokens: Collection[str] = ()
) -> GivenHypotheses | None:
    """Read the hypotheses that a row lists, and their prior weights.

    Equal texts are one hypothesis, whose weights add up. A hypothesis with the weight 0 is none.

    Args:
        texts: The row's list of texts or numbers. Anything else lists nothing.
        weights: The row's list of weights, one for each text, not negative and not all 0. None, or
            anything else, makes all weights 1.
        max_chars: Longest admissible text in characters.
        special_tokens: Texts that may not occur (see [`why_inadmissible`]).

    Returns:
        The hypotheses; None if there are none.

    Example:
        >>> given_hypotheses(["3", 4, "4"], max_chars=64).weights
        {'3': 1.0, '4': 2.0}
    """
    texts = texts.tolist() if hasattr(texts, "tolist") else texts
    if not isinstance(texts, Sequence) or isinstance(texts, str | bytes):
        return None
    numbers = _weights(weights, len(texts))
    found, dropped, tokens = dict[str, float](), Counter[str](), frozenset(special_tokens)
    for cell, weight in zip(texts, numbers or [1.0] * len(texts), strict=True):
        text = plain_text(cell)
        reason = "no_text"
        if text is not None:
            text = text.strip()
            reason = _why_not_listed(text, max_chars, tokens)
        if text is None or reason is not None:
            dropped[str(reason)] += 1
        elif weight > 0:
            found[text] = found.get(text, 0.0) + weight
    is_unusable = weights is not None and numbers is None
    return GivenHypotheses(found, dict(dropped), is_unusable) if found else None


@lru_cache(2**15)  # many rows may list the same texts
def _why_not_listed(text: str, max_chars: int, special_tokens: frozenset[str]) -> str | None:
    return why_inadmissible(text, max_chars=max_chars, special_tokens=special_tokens)


def _weights(weights: Any, number: int) -> list[float] | None:
    """Return a row's prior weights; None if they are not weights of this number of hypotheses."""
    weights = weights.tolist() if hasattr(weights, "tolist") else weights
    if not isinstance(weights, Sequence) or len(weights) != number:
        return None
    if not all(isinstance(weight, int | float) and weight >= 0 for weight in weights):
        return None
    return [*map(float, weights)] if 0 < sum(weights) < math.inf else None


def given_metrics(given: Sequence[GivenHypotheses | None]) -> dict[str, float]:
    """Count what became of the hypotheses that rows list, for the log.

    Args:
        given: What each prompt of a rollout batch lists; None where that cannot be used.

    Returns:
        `unusable_lists` and `unusable_priors` as shares of the prompts, and as numbers of texts for
        each prompt `dropped/given_<reason>`; reasons that did not occur are absent.
    """
    number = max(len(given), 1)
    usable = [one for one in given if one is not None]
    counts = sum((Counter(one.dropped) for one in usable), Counter[str]())
    return {
        "unusable_lists": (len(given) - len(usable)) / number,
        "unusable_priors": sum(one.is_prior_unusable for one in usable) / number,
        **{f"dropped/given_{reason}": count / number for reason, count in counts.items()},
    }
