"""Benchmarks, from folders in the layout that their repositories have on the Hub."""

from pathlib import Path

import pytest
import yaml
from datasets import Dataset

from barl_trl.evaluation.benchmarks import BENCHMARKS, Problem, load_benchmarks, parse_benchmarks
from barl_trl.graders import extract_answer
from barl_trl.rewards import rollout_answers

from ..paths import read_jsonl

Q = "How many?"
LINES = read_jsonl(Path(__file__).with_name("benchmarks.jsonl"))
ROWS = {line["name"]: (line["row"], line["answer"]) for line in LINES}
"""One row of each as the Hub has it, in all columns that matter, and its true answer."""


def hub_folder(folder, name, rows, kind="parquet"):
    """Writes a copy of a benchmark's repository; every configuration has the rows."""
    source, data, configs = BENCHMARKS[name], Dataset.from_list(rows), []
    for config in source.configs:
        path = f"{config or 'data'}/{source.split}-00000-of-00001.{kind}"
        (folder / path).parent.mkdir(parents=True)
        data.to_parquet(folder / path) if kind == "parquet" else data.to_json(folder / path)
        files = {"data_files": [{"split": source.split, "path": path}]}
        configs.append({"config_name": config or "default"} | files)
    card = yaml.safe_dump({"configs": configs})
    (folder / "README.md").write_text(f"---\n{card}---\n# {name}\n")
    return folder


def load(text, **options):
    (loaded,) = load_benchmarks(parse_benchmarks(text), **options).values()
    return loaded.problems


@pytest.mark.parametrize(("name", "kind"), [("math", "jsonl"), ("gsm8k", "parquet")])
def test_a_copy_of_the_hubs_repository_is_read(tmp_path, name, kind):
    row, answer = ROWS[name]
    key = "problem" if name == "math" else "question"
    folder = hub_folder(tmp_path / name, name, [row, row | {key: "Why?"}], kind)
    problems = load(f"{name}={folder}")
    number = len(BENCHMARKS[name].configs)
    assert problems[0] == Problem(0, Q, answer)
    assert [problem.id for problem in problems] == list(range(2 * number))
    assert [problem.text for problem in problems] == [Q, "Why?"] * number


@pytest.mark.parametrize("name", ROWS)
def test_a_file_in_the_same_columns_is_read(write, name):
    row, answer = ROWS[name]
    assert load(f"{name}={write('rows.jsonl', row)}") == [Problem(0, Q, answer)]


def test_messages_are_a_problem_if_they_are_one_question(write):
    said = [("system", "Be short."), ("user", Q), ("assistant", "2")]
    system, user, answer = ({"role": role, "content": text} for role, text in said)
    prompts = [[user], [user, answer, user], [system, user]]
    rows = [{"prompt": prompt, "answer": "204"} for prompt in prompts]
    benchmark = f"mine={write('rows.jsonl', *rows)}"
    (loaded,) = load_benchmarks(parse_benchmarks(benchmark)).values()
    assert loaded.problems == [Problem(0, Q, "204"), Problem(2, Q, "204")]
    assert loaded.skipped == {"messages": 1}
    write("rows.jsonl", rows[1])
    with pytest.raises(ValueError, match="conversation"):
        load(benchmark)


def test_a_missing_subject_of_math_and_another_split_are_refused(tmp_path):
    folder = hub_folder(tmp_path / "math", "math", [ROWS["math"][0]])
    card = yaml.safe_load((folder / "README.md").read_text().split("---")[1])
    assert len(card["configs"]) == 7
    del card["configs"][0]
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump(card)}---\n")
    with pytest.raises(ValueError, match=r"algebra' not found"):
        load(f"math={folder}")
    gsm8k = tmp_path / "gsm8k"
    gsm8k.mkdir()
    for split in ("train", "validation"):
        Dataset.from_list([ROWS["gsm8k"][0]]).to_parquet(gsm8k / f"{split}.parquet")
    with pytest.raises(ValueError, match="must have the split test"):
        load(f"gsm8k={gsm8k}")
    Dataset.from_list([ROWS["gsm8k"][0]]).to_parquet(gsm8k / "test.parquet")
    assert load(f"gsm8k={gsm8k}") == [Problem(0, Q, "18")]


def test_problems_keep_their_row_numbers_and_on_request_columns(write):
    """Also behind a row without a usable answer, which nothing can be judged by."""
    rows = [("one", "1"), ("none", ""), ("two", "2"), ("three", "3")]
    path = write("p.jsonl", *({"Problem": p, "Answer": a, "level": p[0]} for p, a in rows))
    expected = [Problem(0, "one", "1"), Problem(2, "two", "2"), Problem(3, "three", "3")]
    assert load(f"mine={path}") == expected
    assert load(f"mine={path}", limit=3) == expected[:2]
    sources = parse_benchmarks(f"mine={path}")
    assert load_benchmarks(sources)["mine"].skipped == {"no_answer": 1}
    assert load_benchmarks(sources, limit=1)["mine"].skipped == {}
    assert load(f"mine={path}", keep_columns=True)[1].columns["level"] == "t"


def test_several_benchmarks_are_named_at_once(tmp_path):
    (tmp_path / "mine.jsonl").write_text('{"problem": "p", "answer": "1"}\n')
    sources = parse_benchmarks(f"gsm8k, mine={tmp_path / 'mine.jsonl'},math500")
    assert list(sources) == ["gsm8k", "mine", "math500"]
    assert (sources["gsm8k"], sources["mine"].split) == (BENCHMARKS["gsm8k"], "train")
    assert parse_benchmarks(None) == {}


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        *[("gsm8k,gsm9k", "gsm8k"), ("hmmt25", "hmmt_nov25"), ("mine.jsonl", "mine=PATH")],
        *[("gsm8k,gsm8k", "again"), ("a/b=.", "letters"), (" , ", "at least one")],
        ("gsm8k=no/such.jsonl", "existing"),
    ],
)
def test_unclear_benchmarks_are_refused_and_the_option_is_named(text, hint):
    with pytest.raises((ValueError, FileNotFoundError), match=f"^against must .*{hint}"):
        parse_benchmarks(text, "against")


def test_what_cannot_be_had_or_read_is_refused(tmp_path):
    """The tests are offline."""
    with pytest.raises(ConnectionError, match=r"^against must be reachable"):
        load_benchmarks(parse_benchmarks("gsm8k"), option="against")
    path = tmp_path / "rows.jsonl"
    for text in ("{}", '{"task": "How many?", "answer": "204"}\n'):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"^benchmarks must have columns and rows"):
            load(f"mine={path}")


def test_the_text_of_an_option_is_its_letter_in_evaluation(write):
    row = {"question": "Which is prime?", "choices": ["4", "5"], "answer": 1}
    [problem] = load(f"mine={write('p.jsonl', row)}")
    assert (problem.text, problem.solution) == ("Which is prime?\n\nA. 4\nB. 5", "B")
    options = [problem.columns["lettered_options"]]
    assert rollout_answers([r"\boxed{5}"], extract_answer, None, options) == ["B"]
