"""Files of every kind: their columns, and their cells as the text that they have."""

import json

import pytest
from datasets import Dataset

from barl_trl.data import load_problems

from .problems import reasons, solutions

ROW = '{"problem": "p", "answer": "1"}'


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
        ValueError,
        match=r"answer_column must .* problem, answers: did you mean answer_column='answers'\?",
    ):
        load_problems(path)
    with pytest.raises(
        ValueError, match=r"problem_column must .*'problme' .*did you mean problem_column='problem'"
    ):
        load_problems(path, problem_column="problme")


@pytest.mark.parametrize("gold", ["gold", "total", "the_answers"])
def test_the_problems_column_is_never_proposed_for_the_answer(write, gold):
    path = write("p.jsonl", {"question": "1+1?", gold: "2"})
    match = rf"with columns question, {gold}: did you mean answer_column='{gold}'\?"
    with pytest.raises(ValueError, match=match):
        load_problems(path)
    assert solutions(path, answer_column=gold) == ["2"]
    path = write("q.jsonl", {"question": "1+1?", "gold": "2", "id": "7"})
    with pytest.raises(ValueError, match=r"gold, id: name the one with answer_column\."):
        load_problems(path)
    with pytest.raises(ValueError, match=r"answer_column must be a column .*got 'question'"):
        load_problems(path, answer_column="question")


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
    ("cells", "read"),
    [
        ([[[1, 2], [3, 4]], None], [[[1, 2], [3, 4]], None]),
        ([{"size": 1, "p": 0.3}, {"size": 2}], [{"size": 1, "p": 0.3}, {"size": 2, "p": None}]),
        ([["a"], []], [["a"], []]),
        ([[0.5, 1], 1, None], [[0.5, 1], [1], None]),  # one alone beside lists of some
        ([[1, "b"], ["c"]], [["1", "b"], ["c"]]),
        ([[10**30], [0.5]], [["1" + 30 * "0"], ["0.5"]]),
        ([{"a": 1}, {"a": [1]}, "b"], ['{"a": 1}', '{"a": [1]}', '"b"']),
        ([[{"a": 10**30}], None], ['[{"a": 1' + 30 * "0" + "}]", None]),
        ([[{"role": "user", "content": "p", "name": "n"}]] * 2,) * 2,
        ([1, 0.5], ["1", "0.5"]),
    ],
)
def test_other_columns_keep_lists_and_objects(write, cells, read):
    """Kinds that have no type in common become texts."""
    rows = [{"problem": "p", "answer": "1", "other": cell} for cell in cells]
    data, _ = load_problems(write("p.jsonl", *rows), keep_columns=True)
    assert data["other"][:] == read


def test_a_column_nested_too_deeply_for_arrow_is_json_text(write):
    deep = "[" * 200 + "]" * 200
    path = write("p.jsonl", '{"problem": "p", "answer": "1", "other": ' + deep + "}")
    assert load_problems(path, keep_columns=True)[0]["other"][:] == [deep]


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


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.jsonl", [f'{{"problem": "p", "answer": {n}}}' for n in ("0.10", "1" + 30 * "0")]),
        ("a.csv", ["problem,answer", "p,007", "p,NA"]),
    ],
)
def test_answers_in_a_folder_are_the_text_that_its_files_have(tmp_path, write, name, lines):
    (tmp_path / "folder").mkdir()
    write(f"folder/{name}", *lines)
    assert solutions(str(tmp_path / "folder")) == solutions(write(name, *lines))


def test_a_folder_has_the_splits_that_its_files_name(tmp_path, write):
    (tmp_path / "folder").mkdir()
    for name, answers in {"train-1": [0, 1], "train-2": [2], "test": [3]}.items():
        write(f"folder/{name}.jsonl", *({"problem": "p", "answer": n} for n in answers))
    folder = str(tmp_path / "folder")
    assert solutions(folder) == ["0", "1", "2"]
    assert solutions(folder, split="train[1:]+test") == ["1", "2", "3"]
    with pytest.raises(ValueError, match="split must be 'train' or 'test' or slices of it for "):
        load_problems(folder, split="tset")


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
        ("p.jsonl", [""], "must name a file with rows, got .*: it is empty"),
        ("p.jsonl", ['{"problem": "p"'], "must name a file with rows, .*: no line of it is one"),
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
