"""Rows that are left out on request: by level, duplicates, evaluation problems."""

import json

import pytest
from datasets import Dataset

from barl_trl.data import load_problems
from barl_trl.data.selection import Selection

from .problems import GSM8K, MATH

ROWS = [
    {"problem": "1+1?", "answer": "2", "source": "a", "llama8b_solve_rate": 1.0},
    {"problem": " 1+1? ", "answer": "3", "source": "b", "llama8b_solve_rate": 0.5},
    {"problem": GSM8K, "answer": "72", "source": "gsm8k", "llama8b_solve_rate": 0.5},
    {"problem": "2+2?", "answer": "4", "source": "a", "llama8b_solve_rate": None},
    {"problem": "3+3?", "answer": "6", "source": "a", "llama8b_solve_rate": 0.0},
    {"problem": MATH, "answer": "(x+1)/2", "source": "math", "llama8b_solve_rate": 0.25},
]


@pytest.fixture(params=["jsonl", "parquet"])
def big_math(request, tmp_path):
    """A file with Big-Math's columns, with the types that the Hub's has or as text."""
    path = tmp_path / f"big_math.{request.param}"
    if request.param == "parquet":
        Dataset.from_list(ROWS).to_parquet(path)
    else:
        path.write_text("\n".join(map(json.dumps, ROWS)))
    return str(path)


def answers(path, **selection):
    dataset, report = load_problems(path, selection=Selection(**selection))
    return list(dataset["solution"]), [finding[:2] for finding in report.skipped], report


def test_later_rows_with_the_same_problem_are_left_out(big_math):
    kept, skipped, report = answers(big_math, deduplicate=True)
    assert kept == ["2", "72", "4", "6", "(x+1)/2"]
    assert skipped == [(2, "duplicate")]
    assert not report.suspicious


def test_levels_are_chosen_by_the_solve_rate(big_math):
    kept, skipped, _ = answers(big_math, min_solve_rate=0.25, max_solve_rate=0.5)
    assert kept == ["3", "72", "(x+1)/2"]
    assert skipped == [(1, "too_easy"), (4, "no_solve_rate"), (5, "too_hard")]


@pytest.mark.parametrize("rate", ["", "often", "nan", None])
def test_a_rate_that_is_no_number_is_none(tmp_path, rate):
    rows = [{"problem": "1+1?", "answer": "2", "Llama8B_solve_rate": "0.5"}]
    rows += [{"problem": "2+2?", "answer": "4", "Llama8B_solve_rate": rate}]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    kept, skipped, _ = answers(str(path), max_solve_rate=0.9)
    assert (kept, skipped) == (["2"], [(2, "no_solve_rate")])


def test_a_row_left_out_for_its_level_is_no_first_one_of_duplicates(big_math):
    kept, _, _ = answers(big_math, max_solve_rate=0.9, min_solve_rate=0.1, deduplicate=True)
    assert kept == ["3", "72", "(x+1)/2"]


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


def test_what_cannot_be_selected_is_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"problem": "1+1?", "answer": "2"}))
    with pytest.raises(
        ValueError, match=r"without the column llama8b_solve_rate, got 0.1 and None"
    ):
        load_problems(str(path), selection=Selection(min_solve_rate=0.1))
    with pytest.raises(ValueError, match=r"must be a range within .0, 1., got 0.5 and 0.1"):
        Selection(min_solve_rate=0.5, max_solve_rate=0.1)
    with pytest.raises(ValueError, match=r"decontaminate must name evaluation_sets, got .'a'."):
        Selection(decontaminate=["a"])
