"""Problems: from files of every kind to `prompt` and `solution`."""

import json
import subprocess
import sys

import pytest
from datasets import Dataset

from barl_trl.data import PAPER_SYSTEM_PROMPT, DataReport, load_problems
from barl_trl.data.suspicions import SUSPICIONS
from barl_trl.hypotheses import answers_equivalent, why_inadmissible
from barl_trl.rewards import accuracy_reward

from ..paths import ROOT

EXAMPLES = ROOT / "examples" / "problems.jsonl"
ROW = '{"problem": "p", "answer": "1"}'


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def write(tmp_path):
    def write(name, *rows):
        path = tmp_path / name
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(path)

    return write


def solutions(path, **options):
    return load_problems(path, **options)[0]["solution"][:]


def reasons(report):
    return [finding.reason for finding in report.skipped]


# Prompts


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


# Columns


@pytest.mark.parametrize(
    ("row", "solution"),
    [
        ({"problem": "p", "answer": "1"}, "1"),
        ({"question": "p", "answer": "2 * 9\n#### 18"}, "18"),
        ({"prompt": "p", "solution": r"So \boxed{3}."}, "3"),
        ({"problem": "p", "solution": r"So \boxed{3}.", "answer": "4"}, "4"),
        ({"question": "p", "solution": ["So."], "final_answer": ["$5$"]}, "5"),
        ({"Problem": "p", "Answer": "6"}, "6"),
    ],
)
def test_columns_of_the_usual_data_sets_are_found(write, row, solution):
    assert solutions(write("p.jsonl", row)) == [solution]


def test_columns_can_be_named(write):
    path = write("p.jsonl", {"problem": "no", "answer": "no", "q": "1?", "gold": "1"})
    data, _ = load_problems(path, problem_column="q", answer_column="gold")
    assert data[:] == {"prompt": [[{"role": "user", "content": "1?"}]], "solution": ["1"]}


def test_a_missing_column_is_refused_with_those_found_and_the_nearest(write):
    path = write("p.jsonl", {"problem": "p", "answers": "1"})
    with pytest.raises(
        ValueError, match=r"answer_column must .* problem, answers: did you mean 'answers'"
    ):
        load_problems(path)
    with pytest.raises(
        ValueError, match=r"problem_column must .*'problme' .*did you mean 'problem'"
    ):
        load_problems(path, problem_column="problme")


# Answers


@pytest.mark.parametrize(
    ("answer", "solution"),
    [
        (27.0, "27"),
        (27, "27"),
        (0.5, "0.5"),
        (-3, "-3"),
        (1e-7, "0.0000001"),
        (True, "True"),
        (["$x$"], "x"),
        ([7], "7"),
        ("2024-01-01", "2024-01-01"),
        ("NA", "NA"),
        (10**30 + 1, str(10**30 + 1)),
    ],
)
def test_an_answer_is_the_text_that_the_file_has(write, answer, solution):
    assert solutions(write("p.jsonl", {"problem": "p", "answer": answer})) == [solution]


def test_answers_of_mixed_types_far_apart_are_read(write):
    rows = [{"problem": "x" * 2000, "answer": i} for i in range(6000)]
    last = {"problem": "p", "answer": r"\frac{1}{2}"}
    data, report = load_problems(write("p.jsonl", *rows, last))
    assert report.kept == 6001
    assert data[-1]["solution"] == r"\frac{1}{2}"


def test_decimals_keep_their_digits(write):
    assert solutions(write("p.jsonl", '{"problem": "p", "answer": 0.10}')) == ["0.10"]


def test_a_number_too_large_to_write_out_keeps_its_exponent(write):
    assert solutions(write("p.jsonl", '{"problem": "p", "answer": 1e999999999}')) == [
        "1E+999999999"
    ]


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


# Files


def test_json_arrays_csv_parquet_and_folders_are_read(tmp_path, write):
    rows = [{"problem": "p", "answer": "1"}, {"problem": "q", "answer": "2/3"}]
    Dataset.from_list(rows).to_parquet(tmp_path / "p.parquet")
    folder = tmp_path / "folder"
    folder.mkdir()
    Dataset.from_list(rows).to_parquet(folder / "train.parquet")
    paths = [
        write("p.json", json.dumps(rows, indent=1)),
        write("lines.json", *rows),
        write("p.csv", "problem,answer", "p,1", "q,2/3"),
        str(tmp_path / "p.parquet"),
        str(folder),
    ]
    assert [solutions(path) for path in paths] == [["1", "2/3"]] * 5


def test_answers_of_mixed_types_in_a_folder_of_json_lines_are_read(tmp_path):
    lines = ['{"problem": "p", "answer": 1}', '{"problem": "p", "answer": "x"}', '{"problem": "p"}']
    (tmp_path / "problems").mkdir()
    (tmp_path / "problems" / "train.jsonl").write_text("\n".join(lines))
    data, report = load_problems(str(tmp_path / "problems"))
    assert data["solution"][:] == ["1", "x"]
    assert reasons(report) == ["no_answer"]


def test_numbers_of_a_parquet_file_become_text(tmp_path):
    path = tmp_path / "amc.parquet"
    Dataset.from_dict({"question": ["a", "b", "c"], "answer": [27.0, 0.5, 1e20]}).to_parquet(path)
    data, report = load_problems(str(path))
    assert data["solution"][:] == ["27", "0.5"]
    assert reasons(report) == ["no_answer"], "1e20 may have been any integer near it"


def test_quotes_line_breaks_and_names_of_missing_values_in_csv_are_text(write):
    path = write("p.csv", "problem,answer", '"two\nlines, one cell",007', "p,NA")
    data, _ = load_problems(path, conversational=False)
    assert data[:] == {"prompt": ["two\nlines, one cell", "p"], "solution": ["007", "NA"]}


def test_a_byte_order_mark_and_blank_lines_are_no_rows(write):
    row = {"problem": "p", "answer": "1"}
    path = write("p.jsonl", "\ufeff" + json.dumps(row), "", row)
    assert solutions(path) == ["1", "1"]


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
    ("name", "lines", "message"),
    [
        ("p.json", ['[{"problem": "q",'], "p.json must hold JSON, got .*: repair the file"),
        ("p.jsonl", [""], "must name a file with rows"),
        ("p.txt", ["p"], "must end in .jsonl, .json, .csv, .parquet, got .*p.txt"),
    ],
)
def test_a_broken_file_is_refused(write, name, lines, message):
    with pytest.raises(ValueError, match=message):
        load_problems(write(name, *lines))


def test_a_file_in_another_encoding_is_refused(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_bytes('{"problem": "Zürich", "answer": "1"}'.encode("latin-1"))
    with pytest.raises(ValueError, match=r"p.jsonl must be UTF-8 text"):
        load_problems(str(path))


def test_a_parquet_file_that_is_none_is_refused(write):
    with pytest.raises(ValueError, match=r"path_or_id must name readable data, got .*p.parquet"):
        load_problems(write("p.parquet", "no"))


def test_a_missing_file_is_not_looked_for_on_the_hub():
    with pytest.raises(FileNotFoundError, match=r"must name an existing file, got no/such.jsonl"):
        load_problems("no/such.jsonl")


def test_a_split_may_be_a_slice_of_the_file(write):
    path = write("p.jsonl", *({"problem": "p", "answer": i} for i in range(10)))
    assert solutions(path, split="train[:2]+train[-1:]") == ["0", "1", "9"]
    with pytest.raises(ValueError, match="split must be 'train' or slices of it"):
        load_problems(path, split="test")


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


@pytest.mark.parametrize(
    ("part", "same"),
    [
        (r"\frac", lambda a: a.replace(r"\frac", r"\dfrac")),
        (r"\%", lambda a: a.removesuffix(r"\%")),
        ("^\\circ", lambda a: a.removesuffix(r"^\circ")),
        (r"\text{ km}", lambda a: a.removesuffix(r"\text{ km}")),
        (r"\pi", lambda a: a.replace(r"\pi", r"{\pi}")),
        (r"\sqrt", lambda a: f"1 \\cdot {a}"),
        (r"\{", lambda a: r"\{" + ",".join(a.strip("\\{}").split(",")[::-1]) + r"\}"),
    ],
)
def test_other_forms_of_the_examples_answers_are_equivalent(part, same):
    answers = [answer for answer in solutions(str(EXAMPLES)) if part in answer]
    assert answers
    assert [answer for answer in answers if not answers_equivalent(answer, same(answer))] == []


# The data check

CHECKED = [
    ("1+1?", "2", None),
    ("1 + 1?", "3", None),
    (" 1+1?\n", "2.0", "duplicate"),
    ("1+1?", "3", "contradiction"),
    ("", "2", "no_problem"),
    ("p1", "", "no_answer"),
    ("p2", "N/A", "placeholder"),
    ("p3", r"\frac{1}{2", "unbalanced"),
    ("p4", r"\sum_{k=1}^n k", "unreadable"),
    ("p5", "!?", "unreadable"),
    ("p6", "p6", "repeats_problem"),
    ("p7", r"2\sqrt{3}", None),
    ("p8", "Evelyn", None),
    ("p9 \ufffd", "1", "garbled"),
    ("p" * 10_001, "1", "long_problem"),
]


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


def check(*arguments):
    command = [sys.executable, "-m", "barl_trl.cli", "data", "check", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_barl_data_check_lists_the_rows_and_exits_with_1(write):
    path = write("p.jsonl", *({"problem": p, "answer": a} for p, a, _ in CHECKED))
    done = check(path)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[:2] == ["row 5: skipped: no_problem: '2'", "row 6: skipped: no_answer: ''"]
    assert r"row 9: look at: unreadable: '\\sum_{k=1}^n k'" in lines
    assert "unreadable: no grader reads the true answer: only the same text will be right" in lines
    assert lines[-1].startswith("12 of 15 rows kept (skipped: 1 no_answer, 1 no_problem, 1 unbal")


def test_barl_data_check_of_good_data_exits_with_0_and_of_none_says_why(write):
    done = check(str(EXAMPLES))
    assert (done.returncode, done.stdout) == (0, "248 of 248 rows kept\n")
    done = check("nowhere.jsonl")
    assert done.returncode == 1
    assert "path_or_id must name an existing file, got nowhere.jsonl" in done.stderr
    done = check(write("p.jsonl", {"task": "p", "answer": "1"}))
    assert "problem_column must be a column of the data set" in done.stderr
