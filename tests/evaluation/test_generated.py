"""Problems that reasoning-gym makes: the same for a seed, and none in common with another."""

import re
from fractions import Fraction
from importlib.metadata import PackageNotFoundError

import pytest
from reasoning_gym import create_dataset

from barl_trl.evaluation.benchmarks import Problem, load_benchmark, parse_benchmarks
from barl_trl.evaluation.generated import (
    TASKS,
    GeneratedBenchmark,
    generate_problems,
    parse_generated,
)
from barl_trl.graders import get_grader


def made(text, **options):
    return generate_problems(parse_generated(text), **options)[0]


def test_size_and_seed_stand_behind_the_task():
    short, whole = parse_generated("reasoning_gym:gcd"), parse_generated("reasoning_gym:gcd:20:7")
    assert (short.task, short.size, short.seed) == ("gcd", 100, 1)
    assert (whole.size, whole.seed) == (20, 7)
    assert re.match(r"\d+\.\d+", whole.version)


def test_the_answers_are_right():
    for _, text, answer in made("reasoning_gym:products:30:5"):
        first, second = map(int, re.findall(r"\d+", text.partition(":")[2]))
        assert int(answer) == first * second


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_a_number_for_an_answer_which_the_grader_can_judge(task):
    verify = get_grader("math_verify").verify
    problems = made(f"reasoning_gym:{task}:15:2")
    assert len(problems) > 10
    for _, text, answer in problems:
        number = Fraction(answer)  # or it raises
        assert text and verify(answer, str(number)).correct
        assert not verify(answer, str(number + 1)).correct


def test_the_same_seed_makes_the_same_problems_and_more_of_them():
    few, many = made("reasoning_gym:lcm:10:3"), made("reasoning_gym:lcm:30:3")
    assert few == many[: len(few)] == made("reasoning_gym:lcm:30:3", limit=10)


def test_problems_are_the_librarys_of_a_seed_that_is_stated():
    library = create_dataset("gcd", seed=4_000_000, size=5)
    assert [text for _, text, _ in made("reasoning_gym:gcd:5:4")] == [
        r["question"] for r in library
    ]


def test_seeds_have_no_problems_in_common_as_the_librarys_have():
    texts = [{row["question"] for row in create_dataset("gcd", seed=s, size=50)} for s in (0, 1)]
    assert len(texts[0] & texts[1]) == 49
    ours = [{text for _, text, _ in made(f"reasoning_gym:gcd:50:{s}")} for s in (1, 2)]
    assert not ours[0] & ours[1]


def test_repeated_problems_are_left_out_and_counted():
    problems, skipped = generate_problems(GeneratedBenchmark("rotten_oranges", 50, 1, "0"))
    assert len({text for _, text, _ in problems}) == len(problems) == 50 - sum(skipped.values())
    problems, skipped = generate_problems(parse_generated("reasoning_gym:products:300:1"))
    assert skipped["repeated"] == 300 - len(problems) > 0
    assert problems[-1][0] > len(problems) - 1  # numbers stay


def test_they_are_benchmarks_like_others(tmp_path):
    (tmp_path / "mine.jsonl").write_text('{"problem": "p", "answer": "1"}\n')
    text = f"reasoning_gym:gcd,mine={tmp_path / 'mine.jsonl'},again=reasoning_gym:gcd:5:2"
    sources = parse_benchmarks(text)
    assert list(sources) == ["gcd", "mine", "again"]
    problems = load_benchmark(sources["again"], limit=3).problems
    assert problems == [Problem(*row) for row in made("reasoning_gym:gcd:5:2")[:3]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reasoning_gym:gdc", r"name a task of reasoning_gym:\{aiw, .*got 'gdc': did you mean gcd"),
        ("reasoning_gym:sokoban", "got 'sokoban': the library's others have no numeric answer"),
        ("reasoning_gym:gcd:many", "named reasoning_gym:TASK:SIZE:SEED, got 'reasoning_gym:gcd:ma"),
        ("reasoning_gym:gcd:1:2:3", "must be named reasoning_gym:TASK:SIZE:SEED"),
        ("reasoning_gym:gcd:0", "must have 1 to 1,000,000 problems, got 0 in"),
        ("reasoning_gym:gcd:5:0", "must have a seed of at least 1, got 0 in"),
        ("reasoning_gym:gcd,reasoning_gym:gcd:5", "must name each one once, got 'gcd' again"),
    ],
)
def test_unclear_names_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_benchmarks(text)


def test_without_the_library_it_is_named(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("barl_trl.evaluation.generated.version", missing)
    with pytest.raises(ImportError, match=r"pip install 'barl-trl\[generated\]'"):
        parse_benchmarks("reasoning_gym:gcd")
