"""What all graders have in common, and their names."""

import pickle

import pytest

from barl_trl.graders import GRADERS, Grader, Verdict, get_grader


def test_what_no_grader_takes_is_refused():
    pairs = "math-verify boxed", "qwen stated", "string stated", "math_verify number"
    for pair in pairs:
        with pytest.raises(ValueError, match="must be"):
            get_grader(*pair.split())


def test_a_label_tells_another_extraction_than_the_default():
    stated = pickle.loads(pickle.dumps(get_grader("math_verify", "stated")))
    assert stated.label == GRADERS["math_verify"].label | {"extraction": "stated"}
    assert stated.extract_answer("The answer is 2.") == "2" and stated.verify("2", "2.0")
    assert stated.with_extraction("boxed").label == GRADERS["math_verify"].label


def test_a_verdict_is_true_just_if_the_answer_is_correct_and_a_failure_if_it_was_not_finished():
    assert Verdict(True, "equal strings")
    assert not Verdict(False, "equal strings"), "though it has two entries"
    assert Verdict(False, "timeout").is_failure and Verdict(False, "crash").is_failure
    assert not Verdict(False, "no answer").is_failure


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
    found = {pair: bool(verdict) for pair, verdict in verdicts.items()}
    assert found == {("1", "1"): True, ("1", "2"): False}
    assert grader.verify("1", "2") == (False, "counted")
    assert sorted(judge.judged) == [("1", "1"), ("1", "2")]


def test_the_number_of_remembered_verdicts_is_bounded():
    judge = Counting()
    grader = make(judge)
    grader.verify("first", "first")
    grader.remember({(str(n), ""): Verdict(False, "other") for n in range(1 << 16)})
    assert len(grader._verdicts) == 1 << 16
    grader.verify("first", "first")
    grader.verify("long" * 1000, "long")
    grader.verify("long" * 1000, "long")
    assert len(judge.judged) == 4, "older ones are forgotten, and too long ones are not remembered"
    assert len(grader._verdicts) == 1


def test_where_one_is_missing_there_is_no_verdict_or_no_answer():
    assert make(Counting()).grade([(None, "1"), ["1", None]]) == [None, (False, "no answer")]
