"""Accuracy, pass@k, intervals and votes, against their textbook definitions."""

from itertools import combinations
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from barl_trl.evaluation.results import consensus, summarize, table_rows
from barl_trl.evaluation.statistics import (
    Estimate,
    accuracy,
    interval,
    pass_at_k,
    share_interval,
    student_quantile,
    student_tail,
)
from barl_trl.graders import get_grader

from .files import response

rewards = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=7)
freedom = st.floats(0.5, 1e4)


@given(rewards, st.data())
def test_pass_at_k_is_the_share_of_all_subsets_with_a_right_output(outputs, data):
    k = data.draw(st.integers(0, len(outputs)))
    subsets = list(combinations(outputs, k))
    expected = sum(any(subset) for subset in subsets) / len(subsets)
    assert pass_at_k(len(outputs), int(sum(outputs)), k) == pytest.approx(expected, abs=1e-12)


def test_pass_at_k_of_many_samples():
    assert pass_at_k(4000, 1, 2000) == pytest.approx(0.5)  # no float could hold C(4000, 2000)


def test_the_standard_error_is_that_of_the_problems_means():
    # means 1, 0.5, 0: their variance with 2 degrees of freedom is 0.25
    outputs = [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    assert accuracy(outputs) == pytest.approx((0.5, sqrt(0.25 / 3)))
    assert accuracy([row * 10 for row in outputs]) == pytest.approx(accuracy(outputs))
    assert accuracy([[1.0, 0.0]]) == Estimate(0.5, None)
    with pytest.raises(ValueError, match="at least one"):
        accuracy([[1.0], []])


@given(freedom, st.floats(0.51, 0.9999), st.floats(0, 30))
def test_students_distribution_is_scipys(df, probability, t):
    expected = stats.t.ppf(probability, df)
    assert student_quantile(probability, df) == pytest.approx(expected, rel=1e-8)
    assert student_tail(t, df) == pytest.approx(stats.t.sf(t, df), rel=1e-7, abs=1e-250)


def test_intervals_by_hand():
    reach = stats.t.ppf(0.975, 7) * 0.1
    assert interval(0.5, 0.1, number=8) == pytest.approx((0.5 - reach, 0.5 + reach))
    for count in (0, 30):  # all right is no certainty
        expected = stats.binomtest(count, 30).proportion_ci(0.95, method="exact")
        found = share_interval(Estimate(count / 30, 0.0), 30)
        assert found == pytest.approx((expected.low, expected.high))
    assert share_interval(Estimate(0.9, 0.1), 5)[1] == 1
    assert share_interval(Estimate(0.5, None), 1) is None


# What responses amount to


def groups(*answers):
    """The true answer is 2; "-" is none."""

    def given(i, n, answer):
        return response(i, n, answer == "2", answer=None if answer == "-" else answer)

    return [[given(i, *one) for one in enumerate(of.split())] for i, of in enumerate(answers)]


def equal(a, b):
    return a.rstrip("!") == b.rstrip("!")


GROUPS = groups("2 2 2 2", "2 2 3 3!", "- 2 4 5", "- - 4 4!")


def test_four_samples_of_four_problems_by_hand():
    found = summarize([one for group in GROUPS for one in group], equal)
    means = [1, 1 / 2, 1 / 4, 0]
    error = sqrt(sum((x - 7 / 16) ** 2 for x in means) / 3 / 4)
    average = {"mean": 7 / 16, "standard_error": pytest.approx(error), "low": 0, "high": 1}
    assert found["avg@k"] == {"4": average}
    assert list(found["pass@k"]) == ["1", "2", "3", "4"]
    assert found["pass@k"]["4"]["mean"] == 3 / 4
    # all agree; two against two; three different ones; no right one
    assert found["cons@k"]["4"]["mean"] == pytest.approx((1 + 1 / 2 + 1 / 3 + 0) / 4)
    assert found["pass@k"]["1"] == {"mean": 7 / 16, "standard_error": pytest.approx(error)}
    greedy = summarize([one for group in groups("2", "3") for one in group], equal)
    assert "pass@k" in greedy and not {"avg@k", "cons@k"} & {*greedy}


@pytest.mark.parametrize("reward", [0, 1])
def test_where_all_or_none_are_right_an_interval_takes_the_place_of_no_error(reward):
    summary = summarize([response(n, 0, reward) for n in range(60)])
    end = 100 * (1 - 0.025 ** (1 / 60))  # so likely is none of 60 right with 2.5 %
    ends = f"{100 - end:.1f}, 100.0" if reward else f"0.0, {end:.1f}"
    [row] = table_rows({"benchmarks": {"b": {"skipped": {}, **summary}}})
    assert row["accuracy"] == f"{100 * reward:.1f} [{ends}] %"


def test_the_answer_that_most_give_wins():
    """Ties are shared, and those without an answer do not vote."""
    won = {"2 2 3 3 4 4 5": 1 / 3, "2 - - - -": 1, "- - -": 0, "2 2 2 3 3 3 3 -": 0}
    for group, share in zip(groups(*won, "2 2 3 3! 4 4"), [*won.values(), 1 / 3], strict=True):
        assert consensus(group, equal) == pytest.approx(share)


def test_equivalent_answers_vote_together():
    answers = ["1/2", "0.5", "3", None, "2/3", "3.0", r"\frac{2}{3}", "7", "7"]
    rewards = [1, 1, 0, 0, 0, 0, 0, 0, 0]
    pairs = enumerate(zip(answers, rewards, strict=True))
    responses = [response(0, n, reward, answer=answer) for n, (answer, reward) in pairs]
    assert consensus(responses, get_grader("math_verify").equivalent) == 0.25
    # a chain of near-equal answers does not join up, nor does what matches one way alone
    near = {("1.0", "1.04"), ("1.04", "1.0"), ("1.04", "1.08"), ("1.08", "1.04"), ("5", "5 or 6")}
    wrong = [response(0, n, 0, answer=a) for n, a in enumerate(["1.08", "1.04", "1.0", "5"])]
    wrong.append(response(0, 4, 0, answer="5 or 6"))
    right = [response(0, n, 1, answer="r") for n in range(5, 7)]
    assert consensus(wrong + right, lambda a, b: (a, b) in near) == 0.5  # against two, 1, 1 and 1
