"""Benchmarks, from folders in the layout that their repositories have on the Hub."""

import json

import pytest
import yaml
from datasets import Dataset

from barl_trl.evaluation.benchmarks import (
    BENCHMARKS,
    MATH_SUBJECTS,
    Problem,
    load_benchmarks,
    parse_benchmarks,
)

# One row of each as the Hub has it, in all columns that matter, and its true answer.
ROWS = {
    "gsm8k": ({"question": "How many?", "answer": "9 + 9 = <<9+9=18>>18\n#### 18"}, "18"),
    "math": (
        {
            "problem": "How many?",
            "level": "Level 5",
            "type": "Algebra",
            "solution": r"\boxed{2} is too few, so $\boxed{\frac{1}{2}}$.",
        },
        r"\frac{1}{2}",
    ),
    "math500": (
        {"problem": "How many?", "solution": r"It is $\boxed{3}$.", "answer": "3", "level": 2},
        "3",
    ),
    "college_math": (
        {"data_source": "d", "question_number": "1.2", "question": "How many?", "answer": "$x=2$"},
        "x=2",
    ),
    "olympiadbench": (
        {"question": "How many?", "final_answer": ["$2 \\pi$"], "solution": ["It is 3."]},
        r"2 \pi",
    ),
    "aime24": (
        {
            "id": 60,
            "problem": "How many?",
            "solution": r"\boxed{1}",
            "answer": "033",
            "year": "2024",
        },
        "033",
    ),
    "amc23": ({"id": 0, "question": "How many?", "answer": 27.0, "url": "u"}, "27"),
    "aime25": (
        {"problem_idx": 1, "problem": "How many?", "answer": 70, "problem_type": ["Algebra"]},
        "70",
    ),
    "aime26": ({"problem_idx": 1, "answer": 277, "problem": "How many?"}, "277"),
    "minerva_math": ({"question": "How many?", "answer": "4e33"}, "4e33"),
} | {
    name: (
        {
            "problem_idx": 1,
            "problem": "How many?",
            "answer": r"\frac{1}{576}, 2",
            "problem_type": ["Geometry", "Algebra"],
        },
        r"\frac{1}{576}, 2",
    )
    for name in ("hmmt_feb25", "hmmt_nov25", "hmmt_feb26")
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


def hub_folder(folder, name, rows, kind="parquet"):
    """Writes a copy of a benchmark's repository; every configuration has the rows."""
    source = BENCHMARKS[name]
    configs = []
    for config in source.configs:
        path = f"{config or 'data'}/{source.split}-00000-of-00001.{kind}"
        (folder / path).parent.mkdir(parents=True)
        data = Dataset.from_list(rows)
        data.to_parquet(folder / path) if kind == "parquet" else data.to_json(folder / path)
        configs.append(
            {
                "config_name": config or "default",
                "data_files": [{"split": source.split, "path": path}],
            }
        )
    card = yaml.safe_dump({"configs": configs})
    (folder / "README.md").write_text(f"---\n{card}---\n# {name}\n")
    return folder


def load(text, **options):
    (loaded,) = load_benchmarks(parse_benchmarks(text), **options).values()
    return loaded.problems


@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "parquet") for name in BENCHMARKS), ("math", "jsonl")]
)
def test_a_copy_of_the_hubs_repository_is_read(tmp_path, name, kind):
    row, answer = ROWS[name]
    folder = hub_folder(tmp_path / name, name, [row], kind)
    problems = load(f"{name}={folder}")
    assert problems[0] == Problem(0, "How many?", answer)
    assert len(problems) == len(BENCHMARKS[name].configs)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_file_in_the_same_columns_is_read(tmp_path, name):
    row, answer = ROWS[name]
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    assert load(f"{name}={path}") == [Problem(0, "How many?", answer)]


def test_columns_may_be_in_upper_case(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"Problem": "How many?", "Answer": "204"}) + "\n")
    assert load(f"aime24={path}") == [Problem(0, "How many?", "204")]


def test_other_columns_are_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"task": "How many?", "answer": "204"}\n')
    message = r"got .*rows.jsonl \(problem_column .*columns task, answer.*\): rename its columns"
    for name in ("mine", "gsm8k"):
        with pytest.raises(ValueError, match=message):
            load(f"{name}={path}")


SYSTEM, USER, SAID = (
    {"role": role, "content": text}
    for role, text in [("system", "Be short."), ("user", "How many?"), ("assistant", "2")]
)


def test_messages_are_a_problem_if_they_are_one_question(tmp_path):
    path = tmp_path / "rows.jsonl"
    prompts = [[USER], [USER, SAID, USER], [SYSTEM, USER]]
    rows = [json.dumps({"prompt": prompt, "answer": "204"}) for prompt in prompts]
    path.write_text("\n".join(rows))
    (loaded,) = load_benchmarks(parse_benchmarks(f"mine={path}")).values()
    assert loaded.problems == [Problem(0, "How many?", "204"), Problem(2, "How many?", "204")]
    assert loaded.skipped == {"messages": 1}
    path.write_text(rows[1])
    with pytest.raises(ValueError, match="benchmarks must have one question in a row, not a conv"):
        load(f"mine={path}")


def test_the_seven_subjects_of_math_are_joined(tmp_path):
    row = ROWS["math"][0]
    folder = hub_folder(tmp_path / "math", "math", [row, row | {"problem": "Why?"}])
    problems = load(f"math={folder}")
    assert [problem.id for problem in problems] == list(range(14))
    assert [problem.text for problem in problems] == ["How many?", "Why?"] * len(MATH_SUBJECTS)


def test_a_missing_subject_is_refused(tmp_path):
    folder = hub_folder(tmp_path / "math", "math", [ROWS["math"][0]])
    card = yaml.safe_load((folder / "README.md").read_text().split("---")[1])
    del card["configs"][0]
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump(card)}---\n")
    with pytest.raises(ValueError, match=r"algebra' not found. Available: .*counting"):
        load(f"math={folder}")


def test_another_split_is_not_taken_for_the_benchmark(tmp_path):
    for split in ("train", "validation"):
        Dataset.from_list([ROWS["gsm8k"][0]]).to_parquet(tmp_path / f"{split}.parquet")
    with pytest.raises(ValueError, match="must have the split test, got train, validation"):
        load(f"gsm8k={tmp_path}")
    Dataset.from_list([ROWS["gsm8k"][0]]).to_parquet(tmp_path / "test.parquet")
    assert load(f"gsm8k={tmp_path}") == [Problem(0, "How many?", "18")]


def test_problems_keep_their_row_numbers(tmp_path):
    """Also behind a row without a usable answer, which nothing can be judged by."""
    path = tmp_path / "mine.jsonl"
    rows = [("one", "1"), ("none", ""), ("two", "2"), ("three", "3")]
    path.write_text("".join(json.dumps({"Problem": p, "Answer": a}) + "\n" for p, a in rows))
    assert load(f"mine={path}") == [
        Problem(0, "one", "1"),
        Problem(2, "two", "2"),
        Problem(3, "three", "3"),
    ]
    assert load(f"mine={path}", limit=3) == [Problem(0, "one", "1"), Problem(2, "two", "2")]
    sources = parse_benchmarks(f"mine={path}")
    assert load_benchmarks(sources)["mine"].skipped == {"no_answer": 1}
    assert load_benchmarks(sources, limit=1)["mine"].skipped == {}


def test_problems_keep_the_other_columns_on_request(tmp_path):
    rows = [{"problem": "p", "answer": n, "solution": "worked", "level": n} for n in ("", "1", "2")]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    sources = parse_benchmarks(f"mine={path}")
    kept = load_benchmarks(sources, keep_columns=True)["mine"].problems
    row = {"problem": "p", "answer": "1", "level": "1"}
    assert kept[0] == Problem(1, "p", "1", row)
    assert not load_benchmarks(sources)["mine"].problems[0].columns


def test_several_benchmarks_are_named_at_once(tmp_path):
    (tmp_path / "mine.jsonl").write_text('{"problem": "p", "answer": "1"}\n')
    sources = parse_benchmarks(f"gsm8k, mine={tmp_path / 'mine.jsonl'},math500")
    assert list(sources) == ["gsm8k", "mine", "math500"]
    assert (sources["gsm8k"], sources["mine"].split) == (BENCHMARKS["gsm8k"], "train")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gsm8k,gsm9k", r"among gsm8k, math, .* got 'gsm9k': did you mean gsm8k\? If not, name"),
        ("hmmt25", r"got 'hmmt25': did you mean hmmt_nov25\?"),
        ("mine.jsonl", "got 'mine.jsonl': name the file of your own as mine=PATH"),
        ("gsm8k,gsm8k", "must name each one once, got 'gsm8k' again"),
        ("a/b=.", "must have names of letters, digits, - and _, got 'a/b'"),
        (" , ", "must name at least one"),
    ],
)
def test_unclear_benchmarks_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_benchmarks(text)


def test_a_missing_file_is_not_looked_for_on_the_hub():
    with pytest.raises(FileNotFoundError, match=r"must name existing files, got no/such.jsonl"):
        parse_benchmarks("gsm8k=no/such.jsonl")


def test_an_error_names_the_option_that_names_the_benchmarks(tmp_path):
    with pytest.raises(ValueError, match=r"^against must be among gsm8k"):
        parse_benchmarks("gsm9k", "against")
    with pytest.raises(FileNotFoundError, match=r"^decontaminate must name existing files"):
        parse_benchmarks("mine=no/such.jsonl", "decontaminate")
    with pytest.raises(ConnectionError, match=r"^against must be reachable"):
        load_benchmarks(parse_benchmarks("gsm8k"), option="against")
    path = tmp_path / "rows.jsonl"
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"^decontaminate must name a file with rows"):
        parse_benchmarks(f"mine={path}", "decontaminate")


def test_without_the_hub_a_benchmark_says_what_to_do():
    """The tests are offline."""
    with pytest.raises(ConnectionError, match=r"got openai/gsm8k .*: download its files elsewhere"):
        load("gsm8k")
