"""Rows that are left out on request: duplicates and evaluation problems."""

import json

import pytest

from barl_trl.data import load_problems

from .problems import GSM8K, MATH

ROWS = [
    {"problem": "1+1?", "answer": "2", "source": "a"},
    {"problem": " 1+1? ", "answer": "3", "source": "b"},
    {"problem": GSM8K, "answer": "72", "source": "gsm8k"},
    {"problem": "2+2?", "answer": "4", "source": "a"},
    {"problem": "3+3?", "answer": "6", "source": "a"},
    {"problem": MATH, "answer": "(x+1)/2", "source": "math"},
]


@pytest.fixture
def big_math(tmp_path):
    """A file with Big-Math's columns."""
    path = tmp_path / "big_math.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    return str(path)


def answers(path, **selection):
    dataset, report = load_problems(path, **selection)
    return list(dataset["solution"]), [finding[:2] for finding in report.skipped], report


def test_later_rows_with_the_same_problem_are_left_out(big_math):
    kept, skipped, report = answers(big_math, deduplicate=True)
    assert kept == ["2", "72", "4", "6", "(x+1)/2"]
    assert skipped == [(2, "duplicate")]
    assert not report.suspicious


def test_evaluation_problems_are_counted_always_and_left_out_on_request(big_math):
    sets = {"gsm8k": [GSM8K], "math": [MATH], "math500": [MATH]}
    kept, _, report = answers(big_math, evaluation_sets=sets)
    assert len(kept) == 6
    assert [finding[:2] for finding in report.contaminated] == [(3, "gsm8k"), (6, "math+math500")]
    assert "kept, but in evaluation sets: 1 gsm8k, 1 math+math500" in str(report)
    kept, skipped, report = answers(big_math, evaluation_sets=sets, decontaminate=["math"])
    assert kept == ["2", "3", "72", "4", "6"]
    assert skipped == [(6, "in math+math500")]
    assert [finding.reason for finding in report.contaminated] == ["gsm8k"]


def test_the_processed_big_math_is_found_by_its_columns(tmp_path):
    path = tmp_path / "processed.jsonl"
    path.write_text(json.dumps({"prompt": "1+1?", "solution": "2", "source": "a"}))
    dataset, _ = load_problems(str(path), conversational=False)
    assert dataset[0] == {"prompt": "1+1?", "solution": "2"}


def test_a_set_to_leave_out_must_be_given(big_math):
    with pytest.raises(ValueError, match=r"decontaminate must name evaluation_sets, got .'a'."):
        load_problems(big_math, decontaminate=["a"])
