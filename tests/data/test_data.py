"""Problems: from rows of any file to `prompt` and `solution`, and what became of the others."""

import json
from pathlib import Path

import pytest
from datasets import Dataset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barl_trl.data import SUSPICIONS, contamination, load_problems
from barl_trl.hypotheses import why_inadmissible
from barl_trl.rewards import accuracy_reward

from ..mangled import mangled
from ..paths import ROOT, read_jsonl
from .problems import CHECKED, GSM8K, MATH, reasons, solutions

HERE = Path(__file__).parent
EXAMPLES = ROOT / "examples" / "problems.jsonl"
ROW = '{"problem": "p", "answer": "1"}'
DEEP = "[" * 200 + "]" * 200


# Files of every kind: their columns, and their cells as the text that they have


def test_columns_can_be_named_and_none_may_be_missing(write):
    path = write("p.jsonl", {"problem": "no", "answer": "no", "q": "1?", "gold": "1"})
    data, _ = load_problems(path, problem_column="q", answer_column="gold")
    assert data[:] == {"prompt": [[{"role": "user", "content": "1?"}]], "solution": ["1"]}
    for missing in ({}, {"problem_column": "problme"}, {"answer_column": "problem"}):
        row = {"problem": "p", "answer" if missing else "answers": "1"}
        with pytest.raises(ValueError, match="_column must be a column of the data set"):
            load_problems(write("p.jsonl", row), **missing)


def test_an_answer_is_the_text_that_the_file_has(write):
    answers = [27.0, 27, 0.5, -3, 1e-7, True, ["$x$"], [7], "2024-01-01", "<NA>", 10**30 + 1]
    rows = [{"problem": "p", "answer": answer} for answer in answers]
    path = write("p.jsonl", *rows, '{"problem": "p", "answer": 1e999999999}')
    texts = ["27", "27", "0.5", "-3", "0.0000001", "True", "x", "7", "2024-01-01", "<NA>"]
    assert solutions(path) == [*texts, str(10**30 + 1), "1E+999999999"]


def test_answers_of_mixed_types_far_apart_are_read(write):
    rows = [{"problem": "x" * 20_000, "answer": i} for i in range(600)]
    last = {"problem": "p", "answer": r"\frac{1}{2}"}
    data, report = load_problems(write("p.jsonl", *rows, last), most_parsed=0)
    assert report.kept == 601
    assert data[-1]["solution"] == r"\frac{1}{2}"


@pytest.mark.parametrize(
    ("cells", "read"), [*read_jsonl(HERE / "cells.jsonl"), ([json.loads(DEEP)], [DEEP])]
)
def test_other_columns_keep_lists_and_objects(write, cells, read):
    """Kinds that have no type in common become texts, and so does what is too deep for Arrow."""
    rows = [{"problem": "p", "answer": "1", "other": cell} for cell in cells]
    data, _ = load_problems(write("p.jsonl", *rows), keep_columns=True)
    assert data["other"][:] == read


def test_json_arrays_csv_parquet_and_folders_are_read(tmp_path, write):
    rows = [{"problem": "p", "answer": "1"}, {"problem": "q", "answer": "2/3"}]
    (tmp_path / "folder").mkdir()
    for path in ("p.parquet", "folder/train.parquet"):
        Dataset.from_list(rows).to_parquet(tmp_path / path)
    paths = [
        write("p.json", json.dumps(rows, indent=1)),
        write("lines.json", *rows),
        write("p.csv", "problem,answer", "p,1", "q,2/3"),
        *(str(tmp_path / path) for path in ("p.parquet", "folder")),
    ]
    assert [solutions(path) for path in paths] == [["1", "2/3"]] * 5


def test_a_folder_has_the_splits_that_its_files_name(tmp_path, write):
    (tmp_path / "folder").mkdir()
    for name, answers in {"train-1": [0, 1], "train-2": [2], "test": [3]}.items():
        write(f"folder/{name}.jsonl", *({"problem": "p", "answer": n} for n in answers))
    folder = str(tmp_path / "folder")
    assert solutions(folder) == ["0", "1", "2"]
    assert solutions(folder, split="train[1:]+test") == ["1", "2", "3"]
    with pytest.raises(ValueError, match="tset"):
        load_problems(folder, split="tset")


def test_numbers_of_a_parquet_file_become_text(tmp_path):
    path = tmp_path / "amc.parquet"
    Dataset.from_dict({"question": ["a", "b", "c"], "answer": [27.0, 0.5, 1e20]}).to_parquet(path)
    data, report = load_problems(str(path))
    assert data["solution"][:] == ["27", "0.5"]
    assert reasons(report) == ["no_answer"], "1e20 may have been any integer near it"


def test_quotes_line_breaks_and_missing_values_in_csv_are_text_and_blank_lines_no_rows(write):
    path = write("p.csv", "problem,answer", '"two\nlines, one cell",007', "p,<NA>")
    data, _ = load_problems(path, conversational=False)
    assert data[:] == {"prompt": ["two\nlines, one cell", "p"], "solution": ["007", "<NA>"]}
    assert solutions(write("p.jsonl", f"\ufeff{ROW}", "", ROW)) == ["1", "1"]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("p.jsonl", [ROW, '{"problem": "q", "ans']),
        ("p.jsonl", ["5", ROW]),
        ("p.jsonl", [ROW, "[" * 100_000]),
        ("p.csv", ["problem,answer", "p,1", "p,1,2"]),
        ("p.csv", ["problem,answer", "p,1", "p"]),
        ("p.csv", ["problem,answer", "p,1", "p," + "9" * 200_000]),
    ],
)
def test_a_line_that_is_no_row_is_skipped_counted_and_named(write, caplog, name, lines):
    _, report = load_problems(write(name, *lines))
    assert (report.rows, report.kept, reasons(report)) == (2, 1, ["no_problem"])
    assert f"{name}:" in caplog.text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *[("p.json", b'[{"problem": "q",'), ("p.jsonl", b""), ("p.jsonl", b'{"problem": "p"')],
        *[("p.json", b"-1"), ("p.txt", b"p"), ("p.parquet", b"no")],
        ("p.jsonl", '{"problem": "Zürich", "answer": "1"}'.encode("latin-1")),
    ],
)
def test_a_broken_file_is_refused_by_its_name(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=name):
        load_problems(str(tmp_path / name))


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("kind", ["jsonl", "csv", "json"])
def test_any_mangled_file_is_read_or_named(tmp_path, kind, data):
    lines = {"csv": "problem,answer\np,1\nq,2\n", "json": '[{"problem": "p", "answer": 1}]'}
    path = tmp_path / f"rows.{kind}"
    path.write_bytes(data.draw(mangled(lines.get(kind, 2 * f"{ROW}\n").encode())))
    said = str(path)
    try:
        load_problems(str(path))
    except ValueError as error:
        said = str(error)
    assert str(path) in said or "_column must be" in said


# Prompts, true answers and the report


def test_a_plain_prompt_is_the_format_with_the_problem_in_it(write):
    path = write("p.jsonl", {"problem": r"Simplify $\frac{2}{4}$.", "answer": "1/2"})
    for form in ("{problem}", r"{problem} Use \boxed{}."):
        data, _ = load_problems(path, conversational=False, prompt_format=form)
        assert data[0]["prompt"] == form.replace("{problem}", r"Simplify $\frac{2}{4}$.")
    # options that would be lost are refused
    with pytest.raises(ValueError, match="prompt_format must have"):
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


ILL_ANSWERS = {
    "no_answer": ["", None, ["1", "2"], {"value": 1}],
    **{"unbalanced": ["{1"], "control_characters": ["1\u200b2"], "too_long": ["1" * 513]},
}


def test_rows_that_cannot_be_used_are_skipped_and_counted(write):
    rows = [{"problem": "p", "answer": answer} for of in ILL_ANSWERS.values() for answer in of]
    rows += ['{"problem": "p", "answer": "\\ud800"}', {"problem": "p"}]
    rows.append({"problem": 7, "answer": ""})
    rows += [{"problem": " ", "answer": "1"}, {"answer": "1"}]
    data, report = load_problems(write("p.jsonl", ROW, *rows))
    assert (data["solution"][:], report.rows, report.kept) == (["1"], 13, 1)
    expected = [reason for reason, of in ILL_ANSWERS.items() for _ in of]
    assert reasons(report) == expected + ["no_answer"] * 3 + ["no_problem"] * 2
    _, report = load_problems(write("q.jsonl", ROW, {"problem": "p", "answer": float("nan")}))
    assert reasons(report) == ["no_answer"]


def test_all_examples_are_usable_different_and_short_and_their_answers_are_rewarded():
    data, report = load_problems(str(EXAMPLES), conversational=False)
    assert report.kept == report.rows >= 220
    assert len(set(data["prompt"])) == report.rows
    answers = data["solution"][:]
    assert all(why_inadmissible(answer, max_chars=64) is None for answer in answers)
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


# Rows that are left out on request, and rows that deserve a look


@pytest.fixture
def big_math(write):
    """A file with Big-Math's columns."""
    rows = [("1+1?", "2"), (" 1+1? ", "3"), (GSM8K, "72"), ("2+2?", "4"), (MATH, "(x+1)/2")]
    return write("p.jsonl", *({"prompt": p, "solution": a, "source": "a"} for p, a in rows))


def test_later_rows_with_the_same_problem_are_left_out(big_math):
    data, report = load_problems(big_math, deduplicate=True)
    assert data["solution"][:] == ["2", "72", "4", "(x+1)/2"]
    assert [finding[:2] for finding in report.skipped] == [(2, "duplicate")]
    assert not report.suspicious


def test_evaluation_problems_are_counted_always_and_left_out_on_request(big_math):
    sets = {"gsm8k": [GSM8K], "math": [MATH], "math500": [MATH]}
    data, report = load_problems(big_math, evaluation_sets=sets)
    assert len(data) == 5
    assert [finding[:2] for finding in report.contaminated] == [(3, "gsm8k"), (5, "math+math500")]
    assert "kept, but in evaluation sets: 1 gsm8k, 1 math+math500" in str(report)
    data, report = load_problems(big_math, evaluation_sets=sets, decontaminate=["math"])
    assert data["solution"][:] == ["2", "3", "72", "4"]
    assert [finding[:2] for finding in report.skipped] == [(5, "in math+math500")]
    assert [finding.reason for finding in report.contaminated] == ["gsm8k"]
    with pytest.raises(ValueError, match="decontaminate must name evaluation_sets"):
        load_problems(big_math, decontaminate=["a"])


AIME = (
    "Each vertex of a regular octagon is independently colored red or blue with equal probability. "
    "The probability is $\\frac{m}{n}$, where $m$ and $n$ are relatively prime positive integers. "
    "Find $m+n$."
)


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        (GSM8K.upper().replace(",", " ;"), "gsm8k"),
        ("Solve this problem. " + GSM8K.replace("altogether in April and May", "then"), "gsm8k"),
        (r"Simplify \dfrac {x + 1} 2", "math+both"),
        (r"Simplify $\dfrac{x-1}{2}$.", None),  # a sign is a word
        (r"Simplify $\dfrac{x+1}{2}$ and $x$.", None),  # short ones only as a whole
        ("Two dice are thrown. " + AIME[94:], None),  # a turn of phrase is no problem
        *[("Natalia sold clips to 48 of her friends.", None), ("", None)],
    ],
)
def test_sets_that_a_text_is_in(text, sets):
    held_out = {"gsm8k": [GSM8K], "aime": [AIME], "math": [MATH], "both": [MATH]}
    assert contamination([text], held_out) == [sets]


def test_the_check_finds_rows_that_cannot_be_used_and_rows_that_deserve_a_look(write):
    path = write("p.jsonl", *({"problem": p, "answer": a} for p, a, _ in CHECKED))
    data, report = load_problems(path)
    found = {finding.row: finding.reason for finding in report.skipped + report.suspicious}
    assert found == {row: reason for row, (*_, reason) in enumerate(CHECKED, 1) if reason}
    assert len(data) == report.kept == len(CHECKED) - len(report.skipped)
    assert {finding.reason for finding in report.suspicious} == set(SUSPICIONS)
    assert not load_problems(path, most_parsed=0)[1].suspicious
    few = load_problems(path, most_parsed=1)[1].suspicious
    assert [one.row for one in few] == [3, 4, 9, 10, 13, 14, 15]
    # a problem without an answer contradicts none
    rows = [{"problem": "P ", "answer": answer} for answer in (None, "", "1", "2", "1")]
    _, report = load_problems(write("q.jsonl", *rows), keep_unanswered=True)
    found = [finding.reason for finding in report.suspicious]
    assert found == ["duplicate", "duplicate", "contradiction", "duplicate"]
