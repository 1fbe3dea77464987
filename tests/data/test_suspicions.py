"""Rows that deserve a look."""

from barl_trl.data import DataReport, load_problems
from barl_trl.data.suspicions import SUSPICIONS, problem_key, suspicions

from .problems import CHECKED


def test_the_check_finds_rows_that_cannot_be_used_and_rows_that_deserve_a_look(write):
    path = write("p.jsonl", *({"problem": p, "answer": a} for p, a, _ in CHECKED))
    data, report = load_problems(path)
    found = {finding.row: finding.reason for finding in report.skipped + report.suspicious}
    assert found == {row: reason for row, (*_, reason) in enumerate(CHECKED, 1) if reason}
    assert len(data) == report.kept == len(CHECKED) - len(report.skipped) == 12
    assert {finding.reason for finding in report.suspicious} == set(SUSPICIONS)


def test_only_so_many_answers_are_tried_on_the_parser_at_load(write):
    rows = [{"problem": f"p{n}", "answer": answer} for n, answer in enumerate(["!?", "?!"])]
    _, report = load_problems(write("p.jsonl", *rows), most_parsed=1)
    assert [finding.row for finding in report.suspicious] == [1]


def test_with_none_to_try_no_row_is_suspected(write):
    path = write("p.jsonl", {"problem": "p", "answer": "n/a"})
    _, report = load_problems(path, most_parsed=0)
    assert report == DataReport(rows=1, skipped=[], suspicious=[])


def test_a_row_that_is_skipped_is_not_looked_at():
    assert suspicions(["", "p", "p"], ["n/a", "1", "1"]) == [None, None, "duplicate"]


def test_a_problem_without_an_answer_is_no_suspicion_and_contradicts_none():
    assert suspicions(["p", "p", "q"], ["1", "", ""]) == [None, "duplicate", None]
    answers = ["", "", "1", "2", "1"]
    found = [None, "duplicate", "duplicate", "contradiction", "duplicate"]
    assert suspicions(["p"] * 5, answers) == found


def test_problems_are_equal_whatever_their_spaces_and_capitals():
    assert problem_key(" What is\n1+1?") == problem_key("what is 1+1?") != problem_key("1+1?")
