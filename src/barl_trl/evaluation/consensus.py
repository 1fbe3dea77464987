"""Cons@k: the answer that most of k responses give, which is right or not."""

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import comb
from typing import NamedTuple

from .metrics import refuse_out_of_range
from .responses import Response


class Votes(NamedTuple):
    """The answers to a problem, as votes.

    Attributes:
        right: Responses with the right answer.
        wrong: Responses with each of the wrong answers, by the class of equivalent ones.
        absent: Responses without an answer, which do not vote.
    """

    right: int
    wrong: tuple[int, ...]
    absent: int

    @property
    def total(self) -> int:
        """All responses."""
        return self.right + sum(self.wrong) + self.absent


def count_votes(responses: Sequence[Response], equivalent: Callable[[str, str], bool]) -> Votes:
    """Return the votes of the responses to a problem.

    The right answers are those that the grader has rewarded, and are one class. Each distinct wrong
    answer joins the first class whose shortest answer it matches both ways, as hypotheses do in
    training; one whose grading timed out or crashed is a wrong one.

    Args:
        responses: Of one problem.
        equivalent: Whether the second answer is the same as the first, taken as true.
    """
    wrong = Counter(r.answer for r in responses if r.answer is not None and r.reward != 1)
    classes: Counter[str] = Counter()
    for answer in sorted(wrong, key=lambda answer: (len(answer), answer)):
        match = (one for one in classes if equivalent(one, answer) and equivalent(answer, one))
        classes[next(match, answer)] += wrong[answer]
    right = sum(response.reward == 1 for response in responses)
    counts = tuple(sorted(classes.values(), reverse=True))
    return Votes(right, counts, len(responses) - right - sum(counts))


def cons_at_k(votes: Votes, k: int) -> float:
    """Return the probability that the right answer wins the vote of `k` responses, drawn without
    replacement.

    The answer that most of the `k` give wins. Of answers with as many votes each, one is drawn,
    which is what the first one in a random order is: t answers that share the lead win 1 / t each.
    Responses without an answer do not vote; where none of the `k` votes, the problem is not solved.
    With `j` right ones among the `k`, and `N_j(m, s)` ways to draw `m` wrong answers of which `s`
    classes have `j` and none has more, it is

    `sum_{j >= 1} C(right, j) sum_{m, s} N_j(m, s) C(absent, k - j - m) / (s + 1) / C(n, k)`.

    Args:
        votes: Of a problem.
        k: Responses that are drawn, 1 <= k <= n.

    Raises:
        ValueError: `k` is out of range.

    Example:
    ```python
    >>> cons_at_k(Votes(right=1, wrong=(1,), absent=1), k=2)  # a tie, and twice only one votes
    0.5

    ```
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}: there is no vote otherwise.")
    refuse_out_of_range(votes.total, k=k)
    if k == votes.total:  # nothing is drawn
        if votes.right < max(votes.wrong, default=1):
            return 0.0
        return 1 / (votes.wrong.count(votes.right) + 1)
    ways: Counter[int] = Counter()  # by the number of answers that share the lead
    for j in range(1, min(k, votes.right) + 1):
        for (drawn, leaders), number in _ways_of_wrong(votes.wrong, j, k - j).items():
            rest = comb(votes.absent, k - j - drawn)
            ways[leaders + 1] += comb(votes.right, j) * number * rest
    won = sum(Fraction(number, leaders) for leaders, number in ways.items())
    return float(won / comb(votes.total, k))


def _ways_of_wrong(wrong: Sequence[int], most: int, room: int) -> Counter[tuple[int, int]]:
    """Count the ways to draw wrong answers, at most `most` of a class and `room` in all.

    Returns:
        The ways by (answers drawn, classes with `most` of them).
    """
    single = wrong.count(1)  # often many: they are drawn together
    ways = Counter(
        {(m, m if most == 1 else 0): comb(single, m) for m in range(min(single, room) + 1)}
    )
    for size in wrong:
        if size == 1:
            continue
        extended: Counter[tuple[int, int]] = Counter()
        for (drawn, leaders), number in ways.items():
            for taken in range(min(size, most, room - drawn) + 1):
                key = (drawn + taken, leaders + (taken == most))
                extended[key] += number * comb(size, taken)
        ways = extended
    return ways
