"""What several samples of each problem amount to, by hand."""

from math import sqrt

import pytest
from scipy.stats import t

from barl_trl.evaluation.results import summarize
from barl_trl.evaluation.statistics.several_samples import (
    _consensus,
    sample_rows,
    summarize_samples,
)
from barl_trl.graders import get_grader

from .test_results import response


def groups(*answers):
    """The true answer is 2."""
    return [
        [
            response(i, n, float(answer == "2"), answer=None if answer == "-" else answer)
            for n, answer in enumerate(row.split())
        ]
        for i, row in enumerate(answers)
    ]


def equal(a, b):
    return a.rstrip("!") == b.rstrip("!")


GROUPS = groups("2 2 2 2", "2 2 3 3!", "- 2 4 5", "- - 4 4!")


def test_four_samples_of_four_problems_by_hand():
    found = summarize_samples(GROUPS, equal)
    means = [1, 1 / 2, 1 / 4, 0]
    error = sqrt(sum((x - 7 / 16) ** 2 for x in means) / 3 / 4)
    reach = t.ppf(0.975, 3) * error  # wider than [0, 1]
    assert reach > 9 / 16
    assert found["avg@k"] == {
        "4": {
            "mean": 7 / 16,
            "standard_error": pytest.approx(error),
            "low": 0,
            "high": 1,
        }
    }
    assert list(found["pass@k"]) == ["1", "2", "3", "4"]
    assert found["pass@k"]["4"]["mean"] == 3 / 4
    # all agree; two against two; three different ones; no right one
    assert list(found["cons@k"]) == ["4"]
    assert found["cons@k"]["4"]["mean"] == pytest.approx((1 + 1 / 2 + 1 / 3 + 0) / 4)


def test_the_interval_is_students_over_problems():
    [average] = summarize_samples(groups(*["2 2 2 3", "2 3 3 3"] * 10))["avg@k"].values()
    reach = t.ppf(0.975, 19) * average["standard_error"]
    assert average["low"] == pytest.approx(0.5 - reach)
    assert average["high"] == pytest.approx(0.5 + reach)


def test_votes_stay_out_where_nobody_says_what_is_equivalent():
    assert "cons@k" not in summarize_samples(GROUPS)


def test_one_sample_has_nothing_beyond_pass_at_one():
    found = summarize_samples(groups("2", "3"))
    assert list(found) == ["pass@k"]
    assert sample_rows({"benchmarks": {"b": found}}) == []


def test_the_table_shows_all_samples_and_the_interval():
    responses = [one for group in GROUPS for one in group]
    row = {"skipped": {}, **summarize(responses, equal)}
    results = {"num_samples": 4, "benchmarks": {"b": row}}
    assert sample_rows(results) == [
        {
            "benchmark": "b",
            "avg@4 [95 %]": "43.8 [0.0, 100.0]",
            "pass@4": "75.0",
            "cons@4": "45.8",
        }
    ]


def test_all_right_is_no_certainty():
    [average] = summarize_samples(groups(*["2 2"] * 30))["avg@k"].values()
    assert (average["mean"], average["high"]) == (1, 1)
    assert average["low"] == pytest.approx(0.025 ** (1 / 30))  # Clopper and Pearson's


def test_a_single_problem_has_no_interval():
    found = summarize_samples(groups("2 3"))
    assert found["avg@k"]["2"] == {"mean": 0.5, "standard_error": None, "low": None, "high": None}
    assert sample_rows({"benchmarks": {"b": found}})[0]["avg@2 [95 %]"] == "50.0"


# The vote


@pytest.mark.parametrize(
    ("answers", "won"),
    [
        ("2 2 3 3 4 4 5", 1 / 3),  # ties are shared
        ("2 - - - -", 1),  # those without an answer do not vote
        ("- - -", 0),
        ("2 2 2 3 3 3 3 -", 0),
        ("2 2 3 3! 4 4", 1 / 3),
    ],
)
def test_the_answer_that_most_give_wins(answers, won):
    [group] = groups(answers)
    assert _consensus(group, equal) == pytest.approx(won)


def test_equivalent_answers_vote_together():
    answers = ["1/2", "0.5", "3", None, "2/3", "3.0", r"\frac{2}{3}", "7", "7"]
    rewards = [1, 1, 0, 0, 0, 0, 0, 0, 0]
    pairs = enumerate(zip(answers, rewards, strict=True))
    responses = [response(0, n, float(reward), answer=answer) for n, (answer, reward) in pairs]
    assert _consensus(responses, get_grader("math_verify").equivalent) == 0.25


def test_answers_join_only_those_that_they_match_both_ways():
    """ "5" matches a longer text one way; a chain of near-equal answers does not join up."""
    near = {("1.0", "1.04"), ("1.04", "1.0"), ("1.04", "1.08"), ("1.08", "1.04"), ("5", "5 or 6")}
    answers = ["1.08", "1.04", "1.0", "5 or 6", "5"]
    wrong = [response(0, n, 0.0, answer=answer) for n, answer in enumerate(answers)]

    def equivalent(a, b):
        return (a, b) in near

    right = [response(0, n, 1.0, answer="r") for n in range(5, 7)]
    assert _consensus(wrong + right, equivalent) == 0.5  # two against two, one, one and one
    assert _consensus(wrong + right[:1], equivalent) == 0
