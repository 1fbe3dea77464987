"""How often responses reflect, by the difficulty of the problem. Keywords show a reflection."""

from collections.abc import Sequence
from typing import NamedTuple

from ..responses import ResponsesByProblem
from .metrics import clopper_pearson

KEYWORDS = (
    "recheck",
    "rethink",
    "reassess",
    "reevaluate",
    "re-evaluate",
    "reevaluation",
    "re-examine",
    "reexamine",
    "reconsider",
    "reanalyze",
    "double-check",
    "check again",
    "think again",
    "verify again",
    "go over the steps",
)
"""Words and phrases that show a reflection, from Liu et al. (2025), whom the paper cites."""


class _DifficultyLevel(NamedTuple):
    """The problems with `difficulty` wrong responses, and the share that has a reflection in any.

    The frequency and its 95 % interval (Clopper and Pearson) are None without such problems.
    """

    difficulty: int
    num_problems: int
    frequency: float | None
    low: float | None
    high: float | None


def reflections_by_difficulty(
    problems: ResponsesByProblem, *, keywords: Sequence[str] = KEYWORDS, num_samples: int = 6
) -> list[_DifficultyLevel]:
    """Measure the frequency of reflections for 0 … `num_samples` wrong responses.

    A response reflects if it contains a keyword, in upper or lower case, also within a word. As in
    the paper, a problem counts as one with reflections if any of its responses reflects.

    Args:
        problems: Samples of each problem. The first `num_samples` of them are used.
        keywords: Texts that show a reflection.
        num_samples: Number of responses per problem (the paper: 6).

    Raises:
        ValueError: A problem has fewer samples, or there are no keywords.
    """
    fewest = min(map(len, problems.values()))
    if not 1 <= num_samples <= fewest:
        raise ValueError(
            f"num_samples must be in [1, {fewest}], the fewest samples of a problem, got "
            f"{num_samples}: lower it, or sample more."
        )
    if not keywords:
        raise ValueError("keywords must hold at least one text, got none: leave them out.")
    by_difficulty: list[list[bool]] = [[] for _ in range(num_samples + 1)]
    for responses in problems.values():
        taken = responses[:num_samples]
        difficulty = sum(response.reward != 1 for response in taken)
        texts = [response.response.lower() for response in taken]
        hit = any(keyword.lower() in text for text in texts for keyword in keywords)
        by_difficulty[difficulty].append(hit)
    levels = []
    for difficulty, hits in enumerate(by_difficulty):
        low, high = clopper_pearson(sum(hits), len(hits)) if hits else (None, None)
        frequency = sum(hits) / len(hits) if hits else None
        levels.append(_DifficultyLevel(difficulty, len(hits), frequency, low, high))
    return levels
