"""What several samples of each problem amount to, by hand."""

from math import sqrt

import pytest
from scipy.stats import t

from barl_trl.evaluation.results import summarize, write_results
from barl_trl.evaluation.several_samples import sample_rows, summarize_samples

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
    assert found["cons@k"]["4"]["mean"] == pytest.approx((1 + 1 / 2 + 1 / 3 + 0) / 4)
    assert found["cons@k"]["1"]["mean"] == pytest.approx(7 / 16)
    # two of two right: all pairs; 1 of 6; none; none
    assert found["G-Pass@k"]["2"]["1"]["mean"] == pytest.approx((1 + 1 / 6) / 4)
    assert found["G-Pass@k"]["4"]["0.5"]["mean"] == 1 / 2
    assert found["mG-Pass@k"]["4"]["mean"] == 1 / 4
    for name in ("cons@k", "G-Pass@k", "mG-Pass@k"):
        assert list(found[name]) == ["1", "2", "4"]


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


def test_k_are_the_powers_of_two_and_the_number_of_samples():
    found = summarize_samples(groups("2 2 3 2 3 2", "2 2 2 2 2 2"), equal)
    assert list(found["cons@k"]) == list(found["mG-Pass@k"]) == ["1", "2", "4", "6"]


def test_the_table_shows_all_samples_and_the_interval(tmp_path):
    responses = [one for group in GROUPS for one in group]
    row = {"skipped": {}, **summarize(responses, equal)}
    results = {"num_samples": 4, "benchmarks": {"b": row}}
    assert sample_rows(results) == [
        {
            "benchmark": "b",
            "avg@4 [95 %]": "43.8 [0.0, 100.0]",
            "pass@4": "75.0",
            "cons@4": "45.8",
            "G-Pass@4 (1)": "25.0",
            "mG-Pass@4": "25.0",
        }
    ]
    write_results(results, tmp_path)
    text = (tmp_path / "results.md").read_text()
    assert "| b | 43.8 [0.0, 100.0] | 75.0 | 45.8 | 25.0 | 25.0 |" in text


def test_all_right_is_no_certainty():
    [average] = summarize_samples(groups(*["2 2"] * 30))["avg@k"].values()
    assert (average["mean"], average["high"]) == (1, 1)
    assert average["low"] == pytest.approx(0.025 ** (1 / 30))  # Clopper and Pearson's


def test_a_single_problem_has_no_interval():
    found = summarize_samples(groups("2 3"))
    assert found["avg@k"]["2"] == {"mean": 0.5, "standard_error": None, "low": None, "high": None}
    assert sample_rows({"benchmarks": {"b": found}})[0]["avg@2 [95 %]"] == "50.0"
