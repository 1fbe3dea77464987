"""Points of the curve from their definition: all ways to draw k responses."""

from itertools import combinations
from math import sqrt
from statistics import fmean

import pytest

from barl_trl.evaluation.statistics.token_efficiency import efficiency_curve

from .files import problems, response

REWARDS = [[1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 1, 1, 1, 1]]
TOKENS = [[10, 20, 30, 40, 50], [60, 60, 60, 60, 60], [1, 2, 3, 4, 5], [7, 7, 7, 7, 12]]
GREEDY, GREEDY_TOKENS = [0, 1, 0, 0], [100, 1, 50, 9]


def sampled():
    return {
        p: [response(p, n, r, tokens=t) for n, (r, t) in enumerate(zip(*rows, strict=True))]
        for p, rows in enumerate(zip(REWARDS, TOKENS, strict=True))
    }


def greedy():
    pairs = enumerate(zip(GREEDY, GREEDY_TOKENS, strict=True))
    return {p: [response(p, 0, r, tokens=t)] for p, (r, t) in pairs}


def mean_of_draws(values, k, summary):
    return fmean(summary(draw) for draw in combinations(values, k))


@pytest.mark.parametrize("k", range(1, 6))
def test_points_are_means_over_problems_and_draws(k):
    point = efficiency_curve(sampled(), max_k=5)[k - 1]
    accuracies = [mean_of_draws(rewards, k, any) for rewards in REWARDS]
    spread = sqrt(sum((a - fmean(accuracies)) ** 2 for a in accuracies) / 3)
    assert point.k == k
    assert point.accuracy == pytest.approx(fmean(accuracies))
    assert point.standard_error == pytest.approx(spread / sqrt(4))
    assert point.tokens == pytest.approx(fmean(mean_of_draws(t, k, sum) for t in TOKENS))


@pytest.mark.parametrize("k", range(1, 7))
def test_points_with_the_greedy_response(k):
    point = efficiency_curve(sampled(), greedy())[k - 1]
    assert point.accuracy == pytest.approx(
        fmean(
            mean_of_draws(rewards, k - 1, lambda draw, first=first: any([first, *draw]))
            for rewards, first in zip(REWARDS, GREEDY, strict=True)
        )
    )
    assert point.tokens == pytest.approx(
        fmean(
            first + mean_of_draws(tokens, k - 1, sum)
            for tokens, first in zip(TOKENS, GREEDY_TOKENS, strict=True)
        )
    )


def test_accuracy_never_falls_with_k_and_one_problem_has_no_standard_error():
    curve = efficiency_curve(problems([REWARDS[0]]), max_k=5)
    assert [p.accuracy for p in curve] == sorted(p.accuracy for p in curve)
    assert {p.standard_error for p in curve} == {None}


@pytest.mark.parametrize(
    ("firsts", "max_k", "message"),
    [
        (None, 6, r"max_k must be in \[1, 5\], got 6: a problem has 5 samples\."),
        (greedy(), 7, r"max_k must be in \[1, 6\], got 7: .* 5 samples and a greedy response\."),
        (None, 0, r"max_k must be in \[1, 5\], got 0"),
        (problems([[1], [1]]), 2, "one response to each of the 4 sampled problems, got 2 to 2"),
        (problems([[1, 1]] * 4), 2, "one response to each of the 4 sampled problems, got 8 to 4"),
    ],
)
def test_too_few_responses(firsts, max_k, message):
    with pytest.raises(ValueError, match=message):
        efficiency_curve(sampled(), firsts, max_k=max_k)
