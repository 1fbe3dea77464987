"""What responses amount to."""

import json

import pytest

from barl_trl.evaluation.responses import Response
from barl_trl.evaluation.results import summarize, table_rows, write_results


def response(problem_id, sample=0, reward=1.0, **changes):
    fields = {
        "benchmark": "b",
        "problem": "1 + 1?",
        "solution": "2",
        "prompt": "1 + 1?\n",
        "response": "\\boxed{2}, é\n\u2028",
        "tokens": 10,
        "truncated": False,
        "answer": "2",
        "reason": "numbers",
    }
    return Response(problem_id=problem_id, sample=sample, reward=reward, **fields | changes)


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


def test_results_are_json_and_a_table(tmp_path):
    results = {
        "model": "m",
        "num_samples": 2,
        "benchmarks": {"b": {"skipped": {"no_answer": 3}, **summarize(RESPONSES)}},
    }
    write_results(results, tmp_path)
    assert json.loads((tmp_path / "results.json").read_text()) == results
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
    text = (tmp_path / "results.md").read_text()
    assert '- model: `"m"`' in text
    row = "| b | 2 (skipped: 3) | 25.0 ± 25.0 % | 25.0 | 25.0 % | 25.0 % | 50.0 % |"
    assert row in text


@pytest.mark.parametrize("reward", [0, 1])
def test_where_all_or_none_are_right_an_interval_takes_the_place_of_no_error(tmp_path, reward):
    responses = [response(n, reward=float(reward)) for n in range(60)]
    results = {"num_samples": 1, "benchmarks": {"b": {"skipped": {}, **summarize(responses)}}}
    write_results(results, tmp_path)
    end = 100 * (1 - 0.025 ** (1 / 60))  # so likely is none of 60 right with 2.5 %
    ends = f"{100 - end:.1f}, 100.0" if reward else f"0.0, {end:.1f}"
    assert table_rows(results)[0]["accuracy"] == f"{100 * reward:.1f} [{ends}] %"


def test_a_share_of_one_problem_has_no_error():
    responses = [response(0, sample=n, reward=float(n)) for n in range(2)]
    results = {"num_samples": 1, "benchmarks": {"b": {"skipped": {}, **summarize(responses)}}}
    assert table_rows(results)[0]["accuracy"] == "50.0 %"


def test_names_and_values_are_no_markup(tmp_path):
    responses = [response(0, sample=n, reward=float(n)) for n in range(2)]
    benchmarks = {"a|b <i>": {"skipped": {}, **summarize(responses)}}
    results = {"num_samples": 1, "template": "`{problem}`", "benchmarks": benchmarks}
    write_results(results, tmp_path)
    text = (tmp_path / "results.md").read_text()
    assert '- template: ``"`{problem}`"``' in text
    assert r"| a\|b \<i> | 1 | 50.0 % |" in text
