"""What responses amount to."""

import pytest

from barl_trl.evaluation.results import summarize, table_rows

from .files import response as response_of


def response(problem_id, sample=0, reward=1.0, **changes):
    return response_of(problem_id, sample, reward, **{"benchmark": "b", "answer": "2"} | changes)


RESPONSES = [
    response(0, 0, 1.0, tokens=10),
    response(0, 1, 0.0, tokens=20, truncated=True, answer=None, reason="no answer"),
    response(3, 0, 0.0, tokens=30, reason="timeout"),
    response(3, 1, 0.0, tokens=40, reason="crash"),
]


def test_the_summary_by_hand():
    found = summarize(RESPONSES)
    assert found.pop("avg@k")["2"]["mean"] == found["accuracy"]
    assert found == {
        "num_problems": 2,
        "accuracy": 0.25,  # of the problems' means 1/2 and 0
        "standard_error": pytest.approx(0.25),
        "mean_tokens": 25,
        "truncated": 0.25,
        "no_answer": 0.25,
        "timeouts": 0.5,
        "pass@k": {
            "1": {"mean": 0.25, "standard_error": pytest.approx(0.25)},
            "2": {"mean": 0.5, "standard_error": pytest.approx(0.5)},
        },
    }


def test_results_are_a_table():
    results = {"benchmarks": {"b": {"skipped": {"no_answer": 3}, **summarize(RESPONSES)}}}
    assert table_rows(results) == [
        {
            "benchmark": "b",
            "problems": "2 (skipped: 3)",
            "accuracy": "25.0 ± 25.0 %",
            "tokens": "25.0",
            "cut off": "25.0 %",
            "no answer": "25.0 %",
            "not judged": "50.0 %",
        }
    ]


@pytest.mark.parametrize("reward", [0, 1])
def test_where_all_or_none_are_right_an_interval_takes_the_place_of_no_error(reward):
    responses = [response(n, reward=float(reward)) for n in range(60)]
    results = {"num_samples": 1, "benchmarks": {"b": {"skipped": {}, **summarize(responses)}}}
    end = 100 * (1 - 0.025 ** (1 / 60))  # so likely is none of 60 right with 2.5 %
    ends = f"{100 - end:.1f}, 100.0" if reward else f"0.0, {end:.1f}"
    assert table_rows(results)[0]["accuracy"] == f"{100 * reward:.1f} [{ends}] %"


def test_a_share_of_one_problem_has_no_error():
    responses = [response(0, sample=n, reward=float(n)) for n in range(2)]
    results = {"num_samples": 1, "benchmarks": {"b": {"skipped": {}, **summarize(responses)}}}
    assert table_rows(results)[0]["accuracy"] == "50.0 %"
