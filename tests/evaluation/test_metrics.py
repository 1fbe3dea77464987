"""Metrics, against their textbook definitions: enumeration of all subsets."""

from itertools import combinations
from math import sqrt
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barl_trl.evaluation.metrics import (
    Estimate,
    accuracy,
    mean_pass_at_k,
    mean_total_tokens,
    pass_at_k,
    pass_at_k_with_greedy,
    share,
)

rewards = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=7)
benchmarks = st.lists(st.tuples(rewards, st.sampled_from([0.0, 1.0])), min_size=1, max_size=4)


def share_of_subsets_with_a_hit(outputs, k):
    subsets = list(combinations(outputs, k))
    return sum(any(subset) for subset in subsets) / len(subsets)


# Pass@k


@given(rewards, st.data())
def test_pass_at_k_is_the_share_of_all_subsets_with_a_right_output(outputs, data):
    k = data.draw(st.integers(0, len(outputs)))
    expected = share_of_subsets_with_a_hit(outputs, k)
    assert pass_at_k(len(outputs), int(sum(outputs)), k) == pytest.approx(expected, abs=1e-12)


@given(rewards, st.sampled_from([0.0, 1.0]), st.data())
def test_the_greedy_output_is_in_every_subset(outputs, greedy, data):
    k = data.draw(st.integers(1, len(outputs) + 1))
    subsets = [(greedy, *others) for others in combinations(outputs, k - 1)]
    expected = sum(any(subset) for subset in subsets) / len(subsets)
    assert pass_at_k_with_greedy(greedy, outputs, k) == pytest.approx(expected, abs=1e-12)


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
def test_pass_at_k_grows_with_k_up_to_one_right_output(problems):
    outputs, greedy = map(list, zip(*problems, strict=True))
    most = min(map(len, outputs))
    values = [mean_pass_at_k(outputs, k).mean for k in range(most + 1)]
    assert values == sorted(values)
    merged = [mean_pass_at_k(outputs, k, greedy=greedy).mean for k in range(1, most + 2)]
    assert merged == sorted(merged)
    assert merged[0] == pytest.approx(fmean(greedy))


@pytest.mark.parametrize(("num_correct", "k", "name"), [(1, 4, "k"), (1, -1, "k"), (4, 1, "num_c")])
def test_more_outputs_than_there_are_cannot_be_drawn(num_correct, k, name):
    with pytest.raises(ValueError, match=f"{name}.* must lie between 0 and num_samples = 3"):
        pass_at_k(3, num_correct, k)


def test_the_greedy_output_needs_a_place():
    assert pass_at_k_with_greedy(1.0, [], 1) == 1.0
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        pass_at_k_with_greedy(1.0, [1.0], 0)
    with pytest.raises(ValueError, match="k must lie between 0 and num_samples = 1, got 2"):
        pass_at_k_with_greedy(1.0, [1.0], 3)


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


# Tokens


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(1, 50), st.data())
def test_total_tokens_are_the_mean_over_all_subsets(lengths, greedy, data):
    k = data.draw(st.integers(1, len(lengths)))
    expected = fmean(sum(subset) for subset in combinations(lengths, k))
    assert mean_total_tokens([lengths], k) == pytest.approx(expected)
    expected = fmean(greedy + sum(subset) for subset in combinations(lengths, k - 1))
    assert mean_total_tokens([lengths], k, greedy=[greedy]) == pytest.approx(expected)


def test_total_tokens_are_the_mean_over_the_problems():
    assert mean_total_tokens([[10, 20], [40, 50]], 2) == 60
    assert mean_total_tokens([[10, 20], [40, 50]], 2, greedy=[1, 3]) == 32
    assert mean_total_tokens([[], []], 1, greedy=[1, 3]) == 2


def test_total_tokens_of_no_output_are_refused():
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        mean_total_tokens([[10]], 0)
    with pytest.raises(ValueError, match="at least one problem, and one output of each"):
        mean_total_tokens([[10], []], 2, greedy=[1, 1])


def test_shares():
    assert share([True, False, False, False]) == 0.25
    assert share([]) == 0
