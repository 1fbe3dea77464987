"""G-Pass@k, against counting the right outputs of every subset."""

from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from barl_trl.evaluation.metrics import pass_at_k
from barl_trl.evaluation.stability import (
    g_pass_at_k,
    mean_g_pass_at_k,
    mean_mg_pass_at_k,
    mg_pass_at_k,
)

rewards = st.lists(st.sampled_from([0, 1]), min_size=1, max_size=8)
TENTHS = st.integers(1, 10)


@given(rewards, TENTHS, st.data())
def test_it_is_the_share_of_all_subsets_with_enough_right_outputs(outputs, tenths, data):
    k = data.draw(st.integers(1, len(outputs)))
    subsets = combinations(outputs, k)
    expected = fmean(10 * sum(subset) >= tenths * k for subset in subsets)
    found = g_pass_at_k(len(outputs), sum(outputs), k, tenths / 10)
    assert found == pytest.approx(expected, abs=1e-12)


@given(rewards, st.data())
def test_the_mean_over_shares_counts_the_right_outputs_above_one_half(outputs, data):
    """2 / k for every right output beyond half of the k, rounded up."""
    k = data.draw(st.integers(1, len(outputs)))
    half = (k + 1) // 2
    expected = fmean(2 / k * max(sum(s) - half, 0) for s in combinations(outputs, k))
    assert mg_pass_at_k(len(outputs), sum(outputs), k) == pytest.approx(expected, abs=1e-12)


def test_the_papers_numbers_of_samples():
    """n = 48 and k = 16 as there; scipy's survival function is independent of ours."""
    for correct in (0, 7, 24, 41, 48):
        for tau, least in ((0.25, 4), (0.5, 8), (0.75, 12), (1.0, 16)):
            expected = hypergeom(48, correct, 16).sf(least - 1)
            assert g_pass_at_k(48, correct, 16, tau) == pytest.approx(expected, abs=1e-12)
    assert mg_pass_at_k(48, 48, 16) == 1


def test_a_small_share_is_pass_at_k():
    assert g_pass_at_k(7, 2, 5, tau=0.2) == pytest.approx(pass_at_k(7, 2, 5))


def test_shares_are_what_their_digits_say():
    """Not what floats make of them: 0.28 * 25 is 7.000000000000001."""
    assert g_pass_at_k(25, 7, 25, tau=0.28) == 1
    assert g_pass_at_k(25, 6, 25, tau=0.28) == 0


def test_problems_weigh_the_same():
    rewards = [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    assert mean_g_pass_at_k(rewards, 2, tau=1.0).mean == pytest.approx(1 / 3)
    assert mean_mg_pass_at_k(rewards, 2).mean == pytest.approx(1 / 3)
    assert mean_g_pass_at_k(rewards, 1, tau=0.5).mean == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("k", "tau", "message"),
    [
        (0, 1.0, "k must be at least 1, got 0"),
        (4, 1.0, "k must lie between 0 and num_samples = 3, got 4"),
        (2, 0.0, "tau must lie above 0 and not above 1, got 0.0"),
        (2, 1.5, "tau must lie above 0 and not above 1, got 1.5"),
    ],
)
def test_values_out_of_range_are_refused(k, tau, message):
    with pytest.raises(ValueError, match=message):
        g_pass_at_k(3, 1, k, tau)
