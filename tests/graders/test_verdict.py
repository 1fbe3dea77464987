"""What a grader says of an answer, and what a reward makes of comparisons that failed."""

import pytest

from barl_trl.graders import Grader, Verdict, extract_answer
from barl_trl.rewards import AccuracyReward

from .hostile_texts import TRUTH


def test_a_verdict_is_true_just_if_the_answer_is_correct():
    assert Verdict(True, "equal strings")
    assert not Verdict(False, "equal strings"), "though it has two entries"


@pytest.mark.parametrize(
    ("reason", "is_failure"),
    [
        ("timeout", True),
        ("crash", True),
        ("math-verify", False),
        ("answer refused: length", False),
        ("no answer", False),
    ],
)
def test_a_failure_is_a_comparison_that_was_not_finished(reason, is_failure):
    assert Verdict(False, reason).is_failure is is_failure


# Failures are counted and said


def judge_slowly(gold: str, answer: str) -> Verdict:
    if answer.startswith("slow"):
        return Verdict(False, "timeout" if answer.endswith("1") else "crash")
    return Verdict(gold == answer, "equal strings")


@pytest.mark.parametrize(
    ("failures", "is_warned_of"), [(0, False), (2, False), (3, True), (100, True)]
)
def test_more_than_two_percent_of_failures_are_warned_of_once(caplog, failures, is_warned_of):
    reward = AccuracyReward(Grader("slow", "1", extract_answer, judge_slowly), "slow")
    answers = [*(f"slow {n % 2}" for n in range(failures)), *["42"] * (100 - failures)]
    metrics, columns = {}, {}
    rewards = reward(
        [rf"\boxed{{{answer}}}" for answer in answers],
        [TRUTH] * 100,
        log_metric=metrics.__setitem__,
        log_extra=columns.__setitem__,
    )
    assert rewards == [0.0] * failures + [1.0] * (100 - failures)
    assert metrics == {"verification_failures": failures / 100}
    assert sum(reason in ("timeout", "crash") for reason in columns["verdict"]) == failures
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == is_warned_of
    assert all(f"{failures} of 100" in record.getMessage() for record in warnings)
