"""`barl data check` lists rows, and its exit status says whether there are any."""

import json

import pytest

from barl_trl import cli

from ..data.problems import CHECKED, GSM8K
from ..paths import ROOT


@pytest.fixture
def check(capsys):
    """Runs the command; returns its exit status, or its error, and what it printed."""

    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            cli.main(["data", "check", *map(str, arguments)])
        shown = capsys.readouterr()
        return stop.value.code, shown.out or shown.err

    return run


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rows_are_listed_and_the_exit_status_is_1(check, tmp_path):
    path = write(tmp_path / "p.jsonl", *({"problem": p, "answer": a} for p, a, _ in CHECKED))
    status, shown = check(path)
    assert status == 1
    lines = shown.splitlines()
    assert lines[:2] == ["row 5: skipped: no_problem: '2'", "row 6: skipped: no_answer: ''"]
    assert "row 9: look at: unreadable: '9^{9^9}'" in lines
    assert "unreadable: no grader reads the true answer: only the same text will be right" in lines
    assert lines[-1].startswith("12 of 15 rows kept (skipped: 1 no_answer, 1 no_problem, 1 unbal")


def test_good_data_exits_with_0(check):
    assert check(ROOT / "examples" / "problems.jsonl") == (0, "248 of 248 rows kept\n")


def test_a_mistake_is_said_in_one_line(check, tmp_path):
    status, error = check("nowhere.jsonl")
    assert status == 2
    assert error.startswith("barl data check: FILE must name an existing file, got nowhere")
    _, error = check(write(tmp_path / "p.jsonl", {"task": "p", "answer": "1"}))
    assert "problem_column must be a column of the data set" in error


def test_evaluation_problems_are_listed(check, tmp_path):
    row = {"problem": GSM8K, "answer": "72"}
    train = write(tmp_path / "train.jsonl", row, {"problem": "2+2?", "answer": "4"})
    held_out = write(tmp_path / "held_out.jsonl", row)
    status, shown = check(train, "--against", f"mine={held_out}")
    assert status == 1
    assert "row 1: in evaluation sets: mine: '72'" in shown
    assert "2 of 2 rows kept (kept, but in evaluation sets: 1 mine)" in shown
