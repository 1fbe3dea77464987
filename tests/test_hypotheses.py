"""Answers: the truth's column, admissibility, merging. Real graders, no mocks."""

import math
import os
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from barl_trl.graders import Grader, Verdict
from barl_trl.graders.normal_form import MAX_TRUTH_CHARS
from barl_trl.hypotheses import (
    DROP_REASONS,
    HypothesisSet,
    given_hypotheses,
    given_metrics,
    hypothesis_metrics,
    merge_hypotheses,
    plain_text,
)

MILLION = 10**6


# Cells of a data set


@given(st.integers(-(2**53) + 1, 2**53 - 1), st.decimals(-(10**9), 10**9, places=4))
def test_numbers_become_the_text_that_one_would_write(whole, number):
    assert plain_text(whole) == plain_text(float(whole)) == plain_text([whole]) == str(whole)
    assert Decimal(plain_text(number)) == number
    assert "E" not in plain_text(number)


@pytest.mark.parametrize("cell", [None, [1, 2], {"a": 1}, float("nan"), 2.0**53, "\ud800"])
def test_what_is_no_certain_text_or_number_has_none(cell):
    assert plain_text(cell) is None


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_whole_numbers_of_a_formatted_data_set_are_text(kind):
    cells = {"a": [7], "b": [[7]], "c": [7.0], "d": [2**60 + 1], "e": ["7"], "f": [True]}
    row = Dataset.from_dict(cells).with_format(kind)[0]
    texts = ["7", "7", "7", str(2**60 + 1), "7", "True"]
    assert list(map(plain_text, row.values())) == texts
    rounded = Dataset.from_dict({"a": [[0.1]], "b": [[2.0**24]]}).with_format(kind)[0]
    assert list(map(plain_text, rounded.values())) == [None, None]


# Hypothesis sets


def same(a: str, b: str) -> bool:
    return a.lower() == b.lower()


def merge(truth, answers, **kwargs) -> HypothesisSet:
    merged = merge_hypotheses(truth, answers, **{"equivalent": same, **kwargs})
    assert merged is not None
    return merged


def test_hypotheses_are_in_the_order_of_the_rollouts_and_in_their_most_frequent_form():
    assert merge("a", []) == HypothesisSet(("a",), (), {})
    assert merge("a", [None, None]) == HypothesisSet(("a",), (None, None), {"no_answer": 2})
    expected = HypothesisSet(("a", "c", "b"), (1, 2, 1, None), {"no_answer": 1})
    assert merge("a", ["c", "b", "c", None]) == expected
    assert merge("a", ["A", "A"]).answers == ("A",)
    assert merge("a", ["A", "a"]).answers == ("a",)
    assert merge("a", ["A"]).answers == ("a",), "the truth counts as one occurrence, first seen"
    assert merge("a", ["b", "B", "B", "b"]).answers == ("a", "b")


def test_an_answer_joins_a_representative_that_it_matches_both_ways_and_no_chain():
    matched = {("a", "b"), ("b", "a"), ("a", "c")}
    assert merge("a", ["c", "b"], equivalent=lambda x, y: (x, y) in matched).members == (1, 0)
    near = {frozenset(("0.5", "50%")), frozenset(("50%", "50"))}
    for truth, other in (("0.5", "50"), ("50", "0.5")):  # it matches 50%, but not the truth
        merged = merge(truth, ["50%", other], equivalent=lambda x, y: frozenset((x, y)) in near)
        assert merged.members == (0, 1)


matches = st.sets(st.frozensets(st.sampled_from("tabcdefgh"), min_size=2, max_size=2))


@given(st.permutations("abcdefgh"), matches, st.data())
def test_the_classes_are_the_same_for_any_order_of_arrival(answers, matches, data):
    def classes(answers):
        merged = merge("t", answers, equivalent=lambda x, y: {x, y} in matches)
        groups: dict[int, set[str]] = {}
        for answer, member in zip(answers, merged.members, strict=True):
            groups.setdefault(member, set()).add(answer)
        return groups.pop(0, set()), {frozenset(group) for group in groups.values()}

    assert classes(answers) == classes(data.draw(st.permutations(answers)))


def test_inadmissible_answers_are_dropped_and_counted_by_rollout():
    answers = ["", "{", "1\n", "<eos>", "1" * 65, "1" * 65, None, "ok"]
    merged = merge("a", answers, special_tokens=["<eos>"])
    assert merged.answers == ("a", "ok")
    assert merged.members == (None,) * 7 + (1,)
    once = ("empty", "unbalanced", "control_characters", "special_token", "no_answer")
    assert merged.dropped == dict.fromkeys(once, 1) | {"too_long": 2}
    assert set(merged.dropped) < set(DROP_REASONS)


def test_a_truth_may_be_longer_than_answers_but_must_be_admissible():
    truth = "1" * MAX_TRUTH_CHARS
    assert merge(truth, [truth, "2" * 65]) == HypothesisSet((truth,), (0, None), {"too_long": 1})
    for ill in ("", "{", "1\n2", "<eos>", truth + "1"):
        assert merge_hypotheses(ill, ["1"], equivalent=same, special_tokens=["<eos>"]) is None


def test_over_the_cap_the_least_frequent_hypotheses_are_dropped_the_last_seen_first():
    answers = ["b", "c", "c", "d", "e", "e"]
    merged = merge("a", answers, max_hypotheses=4)
    assert merged.answers == ("a", "b", "c", "e")
    assert merged.members == (1, 2, 2, None, 3, 3)
    assert merged.dropped == {"over_max_hypotheses": 1}
    assert merge("a", answers, max_hypotheses=1).members == (None,) * 6


rollout_answers = st.lists(st.none() | st.sampled_from(["a", "A", "b", "B", "c", "", "{"]))


@given(rollout_answers, st.none() | st.integers(1, 4))
def test_every_member_points_at_an_answer_that_it_matches(answers, most):
    merged = merge("a", answers, max_hypotheses=most)
    assert same(merged.answers[0], "a")
    assert len(merged.members) == len(answers)
    assert len(set(merged.answers)) == len(merged.answers) <= (most or 5)
    for answer, member in zip(answers, merged.members, strict=True):
        assert member is None or same(merged.answers[member], answer)
    assert sum(merged.dropped.values()) == merged.members.count(None)
    assert merge("a", answers, max_hypotheses=most) == merged


def test_the_order_of_hypotheses_does_not_depend_on_the_hash_seed():
    code = (
        "from barl_trl.hypotheses import merge_hypotheses\n"
        "print(merge_hypotheses('a', list('zyxwvzyx'), equivalent=str.__eq__, max_hypotheses=4))"
    )
    one, other = (
        subprocess.check_output(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}
        )
        for seed in "12"
    )
    assert one == other


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_a_row_lists_texts_and_numbers_with_their_weights(kind):
    given = given_hypotheses(kind([1, 2, 3]), [1, 0, 2.5], max_chars=64)
    assert given.weights == {"1": 1.0, "3": 2.5} and not given.dropped
    assert given_hypotheses(["a", "b", " a "], [1, 2, 4], max_chars=64).weights == {"a": 5, "b": 2}


@pytest.mark.parametrize("cell", [None, "3, 4", b"3", 7, [], [""], [None, ["a", "b"]], {"a": 1}])
def test_what_is_no_list_of_texts_lists_nothing(cell):
    assert given_hypotheses(cell, max_chars=64) is None


@pytest.mark.parametrize(
    "weights", [[1.0], [1.0, -1.0], [0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0], "ab", [1, "2"], 3]
)
def test_weights_that_cannot_be_used_are_equal_weights_and_are_told(weights):
    given = given_hypotheses(["a", "b"], weights, max_chars=64)
    assert given.is_prior_unusable and given.weights == {"a": 1.0, "b": 1.0}


def test_given_texts_are_filtered_as_answers_are_and_counted():
    given = given_hypotheses(["a", "b" * 9, "", "{", None, "a\nb"], max_chars=8)
    assert [*given.weights] == ["a"]
    reasons = ("too_long", "empty", "unbalanced", "no_text", "control_characters")
    assert given.dropped == dict.fromkeys(reasons, 1)
    metrics = given_metrics([given, None])
    assert metrics["unusable_lists"] == 0.5 and metrics["dropped/given_too_long"] == 0.5


def listed(*texts, weights=None):
    return given_hypotheses(texts, weights, max_chars=64)


def test_given_hypotheses_join_the_truth_and_the_answers():
    given = listed("A", "c", "d", weights=[1.0, 2.0, 6.0])
    merged = merge("a", ["b", "C", None], given=given)
    assert merged.answers == ("a", "b", "C", "d")
    assert merged.weights == (1.0, 3.0, 2.0, 6.0)  # b is not given: the mean
    assert merged.members == (1, 2, None)
    assert merged.lists_truth


def test_a_closed_list_is_all_there_is_with_the_truth():
    given = listed("b", "c", "A", weights=[1.0, 2.0, 6.0])
    merged = merge("a", ["B", "x", None, "a"], given=given, is_closed=True)
    assert merged.answers == ("A", "b", "c") and merged.weights == (6.0, 1.0, 2.0)
    assert merged.members == (1, None, None, 0)
    assert merged.dropped == {"no_answer": 1, "not_given": 1}
    lacking = merge("z", ["b"], given=given, is_closed=True)
    assert lacking.answers == ("z", "b", "c", "A") and lacking.weights == (3.0, 1.0, 2.0, 6.0)
    assert not lacking.lists_truth
    metrics = hypothesis_metrics([merged, lacking], [None] * 5)
    assert metrics["truth_not_given"] == 0.5 and metrics["dropped/not_given"] == 0.2


def test_the_likeliest_of_a_closed_list_are_kept_with_the_truth():
    given = listed("a", "b", "c", "d", weights=[1.0, 2.0, 4.0, 3.0])
    merged = merge("a", ["b", "c", "x"], given=given, is_closed=True, max_hypotheses=3)
    assert merged.answers == ("a", "c", "d") and merged.members == (None, 1, None)
    assert merged.dropped == {"over_max_hypotheses": 1, "not_given": 1}


def test_a_long_closed_list_is_matched_by_form_and_compares_nothing():
    compared = []
    equivalent = lambda *pair: compared.append(pair)  # noqa: E731
    given = listed(*map(str, range(1300)))
    merged = merge("7", ["7", "1299", "1300"], given=given, is_closed=True, equivalent=equivalent)
    assert merged.members == (0, 1299, None) and not compared
    merge("7", ["x"], given=listed(*map(str, range(30))), is_closed=True, equivalent=equivalent)
    assert len(compared) == 30


def test_equal_numbers_are_found_in_a_closed_list_of_any_length():
    given = listed("1/2", *map(str, range(1, 200)))
    merged = merge("0.5", ["50/100", "7.0", "x"], given=given, is_closed=True)
    assert merged.answers[0] == "1/2" and merged.members == (0, 7, None)


def slow_grader():
    """Answers with a ! take too long; also returns the pairs that were judged."""
    judged = []

    def judge(gold, answer):
        judged.append((gold, answer))
        if "!" in gold + answer:
            return Verdict(False, "timeout")
        return Verdict(same(gold, answer), "numbers")

    return Grader("slow", "1", str, judge), judged


@pytest.mark.parametrize("truth", ["a", None])
@pytest.mark.parametrize("given", [None, given_hypotheses(["a", "b"], max_chars=64)])
def test_an_answer_that_timed_out_is_not_compared_again(truth, given):
    answers = ["B", "A", *(f"{n}!" for n in range(8)), "b", "a", "3!"]
    for is_closed in (False, True):
        grader, judged = slow_grader()
        options = {"equivalent": grader.equivalent, "given": given, "is_closed": is_closed}
        merged = merge(truth, answers, **options)
        assert merged.uncompared == 9
        assert sum("!" in gold + answer for gold, answer in judged) == 8, "once for each"
        of = dict(zip(answers, merged.members, strict=True))
        assert of["A"] == of["a"] != of["B"] == of["b"]
        late = {of[f"{n}!"] for n in range(8)}
        assert late == {None} if given and is_closed else len(late - {of["a"], of["b"]}) == 8
    assert hypothesis_metrics([merged], answers)["uncompared"] == 9 / len(answers)


def test_the_longer_of_two_timed_out():
    """A truth that takes too long keeps no answers from being merged."""
    grader, _ = slow_grader()
    merged = merge("the truth!", ["b", "B", "c"], equivalent=grader.equivalent)
    assert merged.members == (1, 1, 2) and merged.uncompared == 0


def test_without_a_truth_the_votes_are_the_weights():
    merged = merge(None, ["b", "a", "b", None, "B"])
    assert merged.answers == ("b", "a") and merged.weights == (3.0, 1.0)
    assert not merged.has_truth and merged.members == (0, 1, 0, None, 0)
    assert merge_hypotheses(None, [None], equivalent=same) is None
    closed = merge(None, ["b"], given=listed("a", "b"), is_closed=True)
    assert closed.answers == ("a", "b") and closed.members == (1,)
