"""Problems: from rows to `prompt` and `solution`, and a report of what became of them."""

import subprocess
import sys

import pytest
from datasets import Dataset

from barl_trl.data import PAPER_SYSTEM_PROMPT, DataReport, load_problems
from barl_trl.hypotheses import why_inadmissible
from barl_trl.rewards import accuracy_reward

from ..paths import ROOT
from .problems import reasons, solutions

EXAMPLES = ROOT / "examples" / "problems.jsonl"


def test_a_problem_becomes_a_conversation_and_its_true_answer(write):
    path = write("p.jsonl", {"problem": "1 + 1?", "answer": "2", "level": 1})
    data, report = load_problems(path)
    assert data[:] == {"prompt": [[{"role": "user", "content": "1 + 1?"}]], "solution": ["2"]}
    assert report == DataReport(rows=1, skipped=[], suspicious=[])


def test_the_system_prompt_comes_first(write):
    path = write("p.jsonl", {"problem": "1 + 1?", "answer": "2"})
    data, _ = load_problems(path, system_prompt=PAPER_SYSTEM_PROMPT)
    assert data[0]["prompt"] == [
        {"role": "system", "content": PAPER_SYSTEM_PROMPT},
        {"role": "user", "content": "1 + 1?"},
    ]


def test_a_plain_prompt_is_the_format_with_the_problem_in_it(write):
    path = write("p.jsonl", {"problem": r"Simplify $\frac{2}{4}$.", "answer": "1/2"})
    data, _ = load_problems(path, conversational=False)
    assert data[0]["prompt"] == r"Simplify $\frac{2}{4}$."
    data, _ = load_problems(path, conversational=False, prompt_format=r"{problem} Use \boxed{}.")
    assert data[0]["prompt"] == r"Simplify $\frac{2}{4}$. Use \boxed{}."


def test_prompt_options_that_would_be_lost_are_refused(write):
    path = write("p.jsonl", {"problem": "1", "answer": "1"})
    with pytest.raises(ValueError, match=r"prompt_format must contain {problem}, got 'Solve:'"):
        load_problems(path, prompt_format="Solve:")
    with pytest.raises(ValueError, match="system_prompt must be None without messages"):
        load_problems(path, system_prompt="Think.", conversational=False)


@pytest.mark.parametrize("name", ["p.jsonl", "p.parquet"])
def test_messages_are_a_prompt_as_they_stand(write, tmp_path, name):
    system, user, said = (
        {"role": role, "content": text}
        for role, text in [("system", "Be short."), ("user", "1+1?"), ("assistant", "2")]
    )
    prompts = [[user], [system, user], [user, said, user], [user, said], []]
    rows = [{"prompt": prompt, "solution": "2"} for prompt in prompts]
    path = tmp_path / name
    if name.endswith("parquet"):
        Dataset.from_list(rows).to_parquet(path)
    else:
        write(name, *rows)
    own = {"role": "system", "content": "Think."}
    data, report = load_problems(str(path), system_prompt="Think.")
    assert data["prompt"][:] == [[own, user], [system, user], [own, user, said, user]]
    assert reasons(report) == ["no_problem"] * 2, "the last word is not the user's"
    with pytest.raises(ValueError, match=r"0 of 5 rows kept \(skipped: 4 messages, 1 no_problem\)"):
        load_problems(str(path), conversational=False)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"problem": " ", "answer": "1"}, "no_problem"),
        ({"answer": "1"}, "no_problem"),
        ({"problem": 7, "answer": ""}, "no_answer"),
        ({"problem": "p"}, "no_answer"),
        ({"problem": "p", "answer": None}, "no_answer"),
        ({"problem": "p", "answer": float("nan")}, "no_answer"),
        ({"problem": "p", "answer": ["1", "2"]}, "no_answer"),
        ({"problem": "p", "answer": {"value": 1}}, "no_answer"),
        ('{"problem": "p", "answer": "\\ud800"}', "no_answer"),
        ({"problem": "p", "answer": "{1"}, "unbalanced"),
        ({"problem": "p", "answer": "1\u200b2"}, "control_characters"),
        ({"problem": "p", "answer": "1" * 513}, "too_long"),
    ],
)
def test_a_row_that_cannot_be_used_is_skipped_and_counted(write, row, reason):
    data, report = load_problems(write("p.jsonl", {"problem": "p", "answer": "1"}, row))
    assert data["solution"][:] == ["1"]
    assert (report.rows, report.kept, reasons(report)) == (2, 1, [reason])


def test_the_report_is_one_line(write):
    path = write("p.jsonl", {"problem": "p", "answer": "1"}, {"problem": "p", "answer": "{"})
    _, report = load_problems(path)
    assert str(report) == "1 of 2 rows kept (skipped: 1 unbalanced)"


def test_without_any_usable_row_the_reasons_are_named(write):
    path = write("p.jsonl", {"problem": "p", "answer": "{"}, {"problem": "p", "answer": ""})
    with pytest.raises(
        ValueError, match=r"got 0 of 2 rows kept \(skipped: 1 no_answer, 1 unbalanced\)"
    ):
        load_problems(path)


# The examples


def test_the_examples_are_what_their_script_writes(tmp_path):
    path = tmp_path / "problems.jsonl"
    script = ROOT / "scripts" / "make_problems.py"
    subprocess.run([sys.executable, script, path], check=True)
    assert path.read_bytes() == EXAMPLES.read_bytes()


def test_all_examples_are_usable_different_and_short():
    data, report = load_problems(str(EXAMPLES), conversational=False)
    assert report.kept == report.rows >= 220
    assert len(set(data["prompt"])) == report.rows
    assert all(why_inadmissible(answer, max_chars=64) is None for answer in data["solution"])


def test_the_true_answers_of_the_examples_are_rewarded_and_others_are_not():
    answers = solutions(str(EXAMPLES))
    right = accuracy_reward([rf"\boxed{{{answer}}}" for answer in answers], answers)
    wrong = accuracy_reward([r"\boxed{123456}"] * len(answers), answers)
    assert (set(right), set(wrong)) == ({1.0}, {0.0})


def test_rows_without_an_answer_stay_where_none_is_needed(write):
    rows = [{"problem": "1 + 1?", "answer": "2"}, {"problem": "Which?", "answer": None}]
    data, report = load_problems(write("p.jsonl", *rows), keep_unanswered=True)
    assert data["solution"][:] == ["2", None] and not report.skipped
    lists = {"texts": ["1", "b"], "weights": [0.5, 2], "numbers": [1, 2**60]}
    alone = write("q.jsonl", {"problem": "Which?"} | lists)
    data, _ = load_problems(alone, keep_unanswered=True, keep_columns=True)
    assert data[0]["solution"] is None
    assert {name: data[0][name] for name in lists} == lists
    with pytest.raises(ValueError, match="answer_column"):
        load_problems(alone)
