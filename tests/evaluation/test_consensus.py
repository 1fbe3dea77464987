"""The vote, against counting the votes of every subset."""

from collections import Counter
from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barl_trl.evaluation.consensus import Votes, cons_at_k, count_votes
from barl_trl.graders import get_grader

from .test_results import response

votes = st.builds(
    Votes,
    right=st.integers(0, 4),
    wrong=st.lists(st.integers(1, 3), max_size=4).map(tuple),
    absent=st.integers(0, 2),
).filter(lambda votes: 0 < votes.total <= 9)


def won(ballots):
    """The right answer is 0, the wrong ones are 1, 2, …; None abstains. Ties are shared."""
    counts = Counter(ballot for ballot in ballots if ballot is not None)
    leaders = [answer for answer, count in counts.items() if count == max(counts.values())]
    return (0 in leaders) / max(len(leaders), 1)


@given(votes, st.data())
def test_it_is_the_mean_over_all_subsets(votes, data):
    k = data.draw(st.integers(1, votes.total))
    ballots = [0] * votes.right + [None] * votes.absent
    ballots += [i for i, number in enumerate(votes.wrong, 1) for _ in range(number)]
    expected = fmean(won(subset) for subset in combinations(ballots, k))
    assert cons_at_k(votes, k) == pytest.approx(expected, abs=1e-12)


def test_ties_are_shared_and_those_without_an_answer_do_not_vote():
    assert cons_at_k(Votes(2, (2, 2, 1), 0), 7) == pytest.approx(1 / 3)
    assert cons_at_k(Votes(1, (), 63), 64) == 1
    assert cons_at_k(Votes(0, (), 5), 5) == 0
    assert cons_at_k(Votes(3, (4,), 5), 12) == 0


def test_cons_at_one_is_the_accuracy():
    assert cons_at_k(Votes(3, (4, 1), 2), 1) == pytest.approx(0.3)


def test_large_numbers_are_exact():
    """Where no float could hold the ways."""
    assert cons_at_k(Votes(500, (500,), 0), 501) == pytest.approx(0.5)


@pytest.mark.parametrize("k", [0, 4])
def test_only_so_many_can_vote(k):
    with pytest.raises(ValueError, match=f"k must .*, got {k}"):
        cons_at_k(Votes(1, (1,), 1), k)


def test_equivalent_answers_vote_together():
    answers = ["1/2", "0.5", "3", None, "2/3", "3.0", r"\frac{2}{3}", "7", "7"]
    rewards = [1, 1, 0, 0, 0, 0, 0, 0, 0]
    pairs = enumerate(zip(answers, rewards, strict=True))
    responses = [response(0, n, float(reward), answer=answer) for n, (answer, reward) in pairs]
    found = count_votes(responses, get_grader("math_verify").equivalent)
    assert found == Votes(right=2, wrong=(2, 2, 2), absent=1)
    assert cons_at_k(found, 9) == 0.25


def test_answers_join_only_those_that_they_match_both_ways():
    """ "5" matches a longer text one way; a chain of near-equal answers does not join up."""
    near = {("1.0", "1.04"), ("1.04", "1.0"), ("1.04", "1.08"), ("1.08", "1.04"), ("5", "5 or 6")}
    answers = ["1.08", "1.04", "1.0", "5 or 6", "5"]
    responses = [response(0, n, 0.0, answer=answer) for n, answer in enumerate(answers)]
    assert count_votes(responses, lambda a, b: (a, b) in near).wrong == (2, 1, 1, 1)
