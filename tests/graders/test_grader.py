"""What all graders have in common, and their names."""

import pickle

import pytest

from barl_trl.graders import GRADERS, Grader, Verdict, get_grader


def test_graders_are_had_by_name_with_a_version():
    assert list(GRADERS) == ["math_verify", "qwen", "string"]
    for name in GRADERS:
        grader = get_grader(name)
        assert grader.name == name
        assert grader.version


def test_an_unknown_grader_is_refused_with_the_nearest():
    with pytest.raises(
        ValueError, match="one of math_verify, qwen, string, got 'math-verify': did"
    ):
        get_grader("math-verify")


@pytest.mark.parametrize("name", GRADERS)
def test_every_grader_extracts_and_judges(name):
    grader = get_grader(name)
    assert grader.extract_answer(r"So \boxed{\frac{1}{2}}.") is not None
    assert grader.verify(r"\frac{1}{2}", r"\frac{1}{2}")
    assert not grader.verify(r"\frac{1}{2}", r"\frac{1}{3}")


@pytest.mark.parametrize(
    ("gold", "answer", "accepted_by"),
    [
        (r"2\sqrt{3}", r"\sqrt{12}", {"math_verify", "qwen"}),
        ("0.5", "50", {"qwen"}),
        ("(0,1)", "[0,1]", {"qwen"}),
        ("1", r"1 \text{ or } 2", {"string"}),
    ],
)
def test_graders_differ_where_their_conventions_do(gold, answer, accepted_by):
    accepting = {name for name, grader in GRADERS.items() if grader.verify(gold, answer)}
    assert accepting == accepted_by


class Counting:
    def __init__(self):
        self.judged = []

    def __call__(self, gold, answer):
        self.judged.append((gold, answer))
        return Verdict(gold == answer, "counted")


def make(judge) -> Grader:
    return Grader("own", "1", str.strip, judge)


def test_each_pair_is_judged_once():
    judge = Counting()
    grader = make(judge)
    verdicts = grader.verify_all([("1", "1"), ("1", "2"), ("1", "1")])
    assert {pair: bool(verdict) for pair, verdict in verdicts.items()} == {
        ("1", "1"): True,
        ("1", "2"): False,
    }
    assert grader.verify("1", "2") == (False, "counted")
    assert sorted(judge.judged) == [("1", "1"), ("1", "2")]


def test_verdicts_of_another_process_are_taken_over():
    judge = Counting()
    grader = make(judge)
    grader.remember({("1", "1"): Verdict(False, "timeout")})
    assert grader.verify("1", "1") == (False, "timeout")
    assert judge.judged == []


def test_the_number_of_remembered_verdicts_is_bounded():
    judge = Counting()
    grader = make(judge)
    grader.verify("first", "first")
    grader.remember({(str(n), ""): Verdict(False, "other") for n in range(1 << 16)})
    grader.verify("first", "first")
    grader.verify("long" * 1000, "long")
    grader.verify("long" * 1000, "long")
    assert len(judge.judged) == 4, "the oldest is forgotten, and too long ones are not remembered"
    assert len(grader._verdicts) == 1 << 16


def test_a_grader_can_be_sent_to_another_process():
    grader = pickle.loads(pickle.dumps(get_grader("string")))
    assert (grader.name, grader.version) == ("string", get_grader("string").version)
    assert grader.verify("1", "1")
