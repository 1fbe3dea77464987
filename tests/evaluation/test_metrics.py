"""Metrics, against their textbook definitions: enumeration of all subsets."""

from itertools import combinations
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barl_trl.evaluation.statistics.metrics import (
    Estimate,
    accuracy,
    mean_pass_at_k,
    pass_at_k,
)

rewards = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=7)
benchmarks = st.lists(rewards, min_size=1, max_size=4)


def share_of_subsets_with_a_hit(outputs, k):
    subsets = list(combinations(outputs, k))
    return sum(any(subset) for subset in subsets) / len(subsets)


# Pass@k


@given(rewards, st.data())
def test_pass_at_k_is_the_share_of_all_subsets_with_a_right_output(outputs, data):
    k = data.draw(st.integers(0, len(outputs)))
    expected = share_of_subsets_with_a_hit(outputs, k)
    assert pass_at_k(len(outputs), int(sum(outputs)), k) == pytest.approx(expected, abs=1e-12)


def test_pass_at_k_by_hand():
    # one right output of three: 3 pairs, two of which have it
    assert pass_at_k(3, 1, 2) == pytest.approx(2 / 3)
    assert pass_at_k(200, 1, 100) == pytest.approx(0.5)
    # no float could hold C(4000, 2000)
    assert pass_at_k(4000, 1, 2000) == pytest.approx(0.5)


def test_pass_at_one_is_the_accuracy():
    outputs = [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    assert mean_pass_at_k(outputs, 1) == pytest.approx(accuracy(outputs))


@given(benchmarks)
def test_pass_at_k_grows_with_k_up_to_one_right_output(outputs):
    values = [mean_pass_at_k(outputs, k).mean for k in range(min(map(len, outputs)) + 1)]
    assert values == sorted(values)


@pytest.mark.parametrize(("num_correct", "k", "name"), [(1, 4, "k"), (1, -1, "k"), (4, 1, "num_c")])
def test_more_outputs_than_there_are_cannot_be_drawn(num_correct, k, name):
    with pytest.raises(ValueError, match=f"{name}.* must lie between 0 and num_samples = 3"):
        pass_at_k(3, num_correct, k)


# Accuracy


def test_the_standard_error_is_that_of_the_problems_means():
    # means 1, 0.5, 0: their variance with 2 degrees of freedom is 0.25
    estimate = accuracy([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    assert estimate == pytest.approx((0.5, sqrt(0.25 / 3)))


def test_repeating_every_sample_tells_nothing_new():
    once = [[1.0], [0.0], [0.0], [1.0], [1.0]]
    assert accuracy([outputs * 10 for outputs in once]) == pytest.approx(accuracy(once))


def test_problems_weigh_the_same_whatever_their_number_of_outputs():
    assert accuracy([[1.0] * 9, [0.0]]).mean == 0.5


def test_one_problem_has_no_standard_error():
    assert accuracy([[1.0, 0.0]]) == Estimate(0.5, None)


@pytest.mark.parametrize("outputs", [[], [[1.0], []]])
def test_a_mean_of_nothing_is_refused(outputs):
    with pytest.raises(ValueError, match="at least one problem, and one output of each"):
        accuracy(outputs)
