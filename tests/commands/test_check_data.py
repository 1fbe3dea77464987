"""`barl data check` lists rows, and its exit status says whether there are any."""

import pytest

from barl_trl.commands import cli
from barl_trl.data import PAPER_SYSTEM_PROMPT

from ..data.problems import CHECKED, GSM8K


def findings(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(["data", "check", *arguments])
    assert stop.value.code == 1
    return capsys.readouterr().out.splitlines()


def test_rows_are_listed_and_the_exit_status_is_1(capsys, write):
    rows = ({"problem": problem, "answer": answer} for problem, answer, _ in CHECKED)
    lines = findings(capsys, write("p.jsonl", *rows))
    assert lines[0].endswith("[user] '1+1?'") and PAPER_SYSTEM_PROMPT[:20] in lines[0]
    assert lines[1] == "true answer 1: '2'"
    assert lines[6:8] == ["row 5: skipped: no_problem: '2'", "row 6: skipped: no_answer: ''"]
    assert "row 9: look at: unreadable: '9^{9^9}'" in lines
    assert "unreadable: no grader reads the true answer: only the same text will be right" in lines
    assert "rows kept (skipped: 1 no_answer, 1 no_problem, 1 placeholder" in lines[-1]


def test_evaluation_problems_are_listed(capsys, write):
    row = {"problem": GSM8K, "answer": "72"}
    train = write("train.jsonl", row, {"problem": "2+2?", "answer": "4"})
    held_out = write("held_out.jsonl", row)
    lines = findings(capsys, train, "--against", f"mine={held_out}")
    assert "row 1: in evaluation sets: mine: '72'" in lines
    assert "2 of 2 rows kept (kept, but in evaluation sets: 1 mine)" in lines
