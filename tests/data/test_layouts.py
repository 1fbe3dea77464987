"""The layouts of the field's data sets, five rows each: read as they are, or the way in is said.

`layouts.jsonl` has their columns as the data sets' cards give them, with contents of our own. A
truth is None where a row has none. Those without `truths` have no true answers and are refused.
"""

import bz2
import csv
import gzip
import json
import re
import shlex
from pathlib import Path

import pytest
from datasets import Dataset

from barl_trl.commands.train import ScriptArguments
from barl_trl.data import load_problems, select
from barl_trl.graders.choices import chosen
from barl_trl.rewards import accuracy_reward
from barl_trl.rows import messages_of

from ..paths import ROOT, read_jsonl

HERE = Path(__file__).parent
LAYOUTS = {layout["name"]: layout for layout in read_jsonl(HERE / "layouts.jsonl")}
REFUSED = [name for name, layout in LAYOUTS.items() if layout["truths"] is None]
NAMED = {  # what the message of the first try names
    "MetaMathQA": {"answer_column": "response"},
    "WinoGrande": {"problem_column": "sentence"},
    "HellaSwag": {"problem_column": "ctx"},
}
PAGE = (ROOT / "docs/data.md").read_text(encoding="utf-8")
TABLE = re.findall(r"^\| ([^|]+) \| `--dataset_name ([^`]+)` \|$", PAGE, re.MULTILINE)


def written(folder, layout):
    """The path of a file, or folder, in the layout."""
    kind, rows = layout["file"], layout["rows"]
    path = folder / f"rows.{kind}"
    if kind == "parquet":
        Dataset.from_list(rows).to_parquet(path)
    elif kind == "folder":
        path.mkdir()
        for number, row in enumerate(rows):
            (path / f"{number}.json").write_text(json.dumps(row, indent=4))
    elif kind == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        text = {"json": json.dumps(rows), "data.json": json.dumps({"data": rows})}.get(kind, lines)
        path.write_bytes(gzip.compress(text.encode()) if kind.endswith("gz") else text.encode())
    return str(path)


def is_read(layout, path, **options):
    data, report = load_problems(path, most_parsed=None, **options)
    skipped = {finding.row for finding in report.skipped}
    looked_at = skipped | {finding.row for finding in report.suspicious}
    kept = iter(data)
    for number, truth in enumerate(layout["truths"], 1):
        if truth is None:
            assert number in looked_at
        else:
            assert number not in skipped
        row = None if number in skipped else next(kept)
        if truth is not None:
            letter = chosen(truth, row["lettered_options"]) if layout.get("choice_texts") else truth
            assert row["solution"] == letter
        if number == 1:
            assert [text for text in layout["shows"] if text not in str(row["prompt"])] == []
    return True


@pytest.mark.parametrize("name", [n for n in LAYOUTS if n not in (*REFUSED, "Countdown")])
def test_a_layout_is_read_as_it_is_or_with_what_the_message_names(tmp_path, name):
    path = written(tmp_path, LAYOUTS[name])
    if name in NAMED:
        [(option, column)] = NAMED[name].items()
        with pytest.raises(ValueError, match=f"--{option} {column}"):
            load_problems(path)
    assert is_read(LAYOUTS[name], path, **NAMED.get(name, {}))


@pytest.mark.parametrize("name", REFUSED)
def test_a_layout_without_true_answers_is_refused_and_no_solution_of_a_model_named(tmp_path, name):
    with pytest.raises(ValueError, match="_column") as error:
        load_problems(written(tmp_path, LAYOUTS[name]))
    hint = str(error.value).rpartition(": ")[2]
    assert not {"output", "answers", "solutions"} & {*re.findall(r"\w+", hint)}


@pytest.mark.parametrize(("name", "command"), TABLE)
def test_the_commands_of_the_documentation_read_a_sample(tmp_path, name, command):
    assert len(TABLE) == len(dict(TABLE)) >= 20
    words = shlex.split(command)
    options = dict(zip((w.removeprefix("--") for w in words[1::2]), words[2::2], strict=True))
    assert {*options} <= {*ScriptArguments.__dataclass_fields__}
    columns = {name: text for name, text in options.items() if name.endswith("_column")}
    assert is_read(LAYOUTS[name], written(tmp_path, LAYOUTS[name]), **columns)


@pytest.mark.parametrize(("ending", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress)])
@pytest.mark.parametrize("kind", ["json", "jsonl", "csv"])
def test_compressed_files_and_folders_of_them_are_read(tmp_path, kind, ending, compress):
    rows = [{"problem": "p", "answer": "0.10"}, {"problem": "q", "answer": "007"}]
    paths = [Path(written(tmp_path, {"file": kind, "rows": rows}))]
    (tmp_path / "folder").mkdir()
    for name in ("a", "folder/train"):
        paths.append(tmp_path / f"{name}.{kind}.{ending}")
        paths[-1].write_bytes(compress(paths[0].read_bytes()))
    paths[-1] = tmp_path / "folder"
    found = [load_problems(str(path))[0]["solution"][:] for path in paths]
    assert found == [["0.10", "007"]] * 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", {"7": {"question": "p", "answer": "1"}, "9": {"question": "q", "answer": "2"}}),
        ("a.csv", "question;answer\np, or;1\nq;2\n"),
        ("c.csv", 'question,answer,"a;b;c"\n"p;;",1,0\nq,2,0\n'),
        ("b.csv", "question\tanswer\np\t1\nq\t2\n"),
    ],
)
def test_objects_by_name_and_other_separators_are_rows(tmp_path, name, text):
    (tmp_path / name).write_text(text if isinstance(text, str) else json.dumps(text))
    assert load_problems(str(tmp_path / name))[0]["solution"][:] == ["1", "2"]


def test_the_message_names_a_path_that_holds_something(write):
    answers = {"text": ["7"], "answer_start": [3]}
    for row, named in (
        ({"prompt": {"text": "p"}, "answer": "1"}, "problem_column prompt.text"),
        ({"question": "p", "answers": answers}, "answer_column answers.text"),
    ):
        with pytest.raises(ValueError, match=f"try --{named}"):
            load_problems(write("p.jsonl", row))


def test_parts_of_text_are_a_problem_and_images_none(write):
    parts = [{"type": "text", "text": "p"}, {"type": "text", "text": "q"}]
    contents = parts, [*parts, {"type": "image"}], [{"type": "text"}], ["p"]
    messages = [[{"role": "user", "content": content}] for content in contents]
    path = write("p.jsonl", *({"messages": one, "answer": "1"} for one in messages))
    data, report = load_problems(path)
    assert data["prompt"][:] == [[{"role": "user", "content": "pq"}]] and len(report.skipped) == 3


def test_short_sentences_and_small_letters_deserve_a_look(write):
    rows = [("It is 7.", "sentence"), ("We get 7", "sentence"), ("b", "options"), ("x is even", "")]
    path = write("p.jsonl", *({"problem": answer, "answer": answer} for answer, _ in rows))
    found = [finding.reason for finding in load_problems(path)[1].suspicious]
    assert found == [reason for _, reason in rows if reason]


def test_rows_of_a_dataset_are_selected_by_paths_and_keep_their_columns():
    rows = [{"extra": {"q": f"p{n}", "gold": [json.dumps({"a": n})]}} for n in range(2)]
    data = select(Dataset.from_list(rows), problem="Solve: {extra.q}", answer="extra.gold.a")
    assert data[1] == {"prompt": "Solve: p1", "solution": "1"} | rows[1]
    messages = [{"role": "user", "content": "Which?"}]
    row = {"prompt": messages, "choices": ["x", "y"], "gt": 1}
    [made] = select(Dataset.from_list([row]), answer="gt")
    assert (made["solution"], made["lettered_options"]) == ("B", ["x", "y"])
    assert made["prompt"] == [{"role": "user", "content": "Which?\n\nA. x\nB. y"}]
    with pytest.raises(ValueError, match="answer_column"):
        select(Dataset.from_list([row]), answer="gt.value")


@pytest.mark.parametrize(("rows", "truths", "skipped"), read_jsonl(HERE / "choices.jsonl"))
def test_the_truth_of_multiple_choice_is_a_letter(write, rows, truths, skipped):
    path = write("p.jsonl", *({"question": f"Which {k}?"} | row for k, row in enumerate(rows)))
    data, report = load_problems(path)
    assert (data["solution"][:], len(report.skipped)) == (truths, skipped)
    assert "\nA. 4\nB. " in data[0]["prompt"][-1]["content"]


def test_options_that_stand_in_the_problem_are_not_written_again(write):
    row = {"query": "Which? (A) 4 (B) 5", "choices": ["(A)4", "(B)5"], "gold": [1]}
    [made] = load_problems(write("p.jsonl", row))[0]
    assert (made["prompt"][0]["content"], made["solution"]) == (row["query"], "B")
    with pytest.raises(ValueError, match="options must be a list"):
        load_problems(write("q.jsonl", {"question": "Which?", "options": "a) 4 b) 5"}))


@pytest.mark.parametrize(("answer", "reward"), read_jsonl(HERE / "letters.jsonl"))
def test_a_letter_its_text_and_both_are_right_and_others_wrong(answer, reward):
    options = ["a drug", "b", "c", "d", "A polygenic risk score"]
    said = rf"\boxed{{{answer}}}"
    assert accuracy_reward([said], ["E"], lettered_options=[options]) == [reward]


def test_messages_keep_their_keys_and_get_no_others():
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]}
    user = {"role": "user", "content": [{"type": "text", "text": "p"}], "name": "Ann"}
    rows = Dataset.from_list([{"prompt": [user, call]}])
    assert messages_of(rows[0]["prompt"]) == [user, call]
    assert messages_of([{"from": "human", "value": "p"}]) == [{"role": "user", "content": "p"}]
    assert messages_of([{"role": "user", "content": None}]) is messages_of(["p"]) is None
