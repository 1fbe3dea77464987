"""Differences of arms over seeds and problems: by hand, by bootstrap, and against a known truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats
from scipy.stats import ttest_ind, ttest_rel

from barl_trl.evaluation.statistics.comparison import (
    bootstrap,
    compare,
    seeds_needed,
    tokens_at_equal_accuracy,
)

SHIFT = 0.4


def probabilities(generator, shift, *, seeds, of_seeds, problems):
    """How likely each of an arm's models solves each problem."""
    luck = of_seeds * generator.normal(size=(seeds, 1))
    return 1 / (1 + np.exp(-(shift + luck + problems)))


def true_difference(of_seeds, of_problems):
    generator = np.random.default_rng(1)
    sizes = {"seeds": 2000, "of_seeds": of_seeds}
    problems = of_problems * generator.normal(size=1000)
    ours, theirs = (
        probabilities(generator, shift, problems=problems, **sizes) for shift in (SHIFT, 0)
    )
    return ours.mean() - theirs.mean()


@pytest.mark.parametrize(
    ("seeds", "num_problems", "of_seeds", "samples"),
    [(3, 50, 0.3, 1), (5, 100, 0.3, 4), (8, 40, 0.2, 1)],
)
def test_intervals_cover_the_truth(seeds, num_problems, of_seeds, samples):
    generator = np.random.default_rng(0)
    truth, covered, runs = true_difference(of_seeds, 1.5), 0, 2000
    for _ in range(runs):
        problems = 1.5 * generator.normal(size=num_problems)
        sizes = {"seeds": seeds, "of_seeds": of_seeds, "problems": problems}
        ours, theirs = (
            generator.binomial(samples, probabilities(generator, shift, **sizes)) / samples
            for shift in (SHIFT, 0)
        )
        found = compare(ours, theirs)
        covered += found.low <= truth <= found.high
    assert 0.93 <= covered / runs <= 0.97


def test_the_bootstrap_finds_the_same_spread():
    generator = np.random.default_rng(0)
    problems = 2 * generator.normal(size=200)
    arms = [
        problems + 0.3 * generator.normal(size=(12, 1)) + generator.normal(size=(12, 200))
        for _ in range(2)
    ]
    draws = bootstrap(arms, lambda ours, theirs: ours - theirs, draws=4000)
    found = compare(*arms)
    np.testing.assert_allclose(draws.std(), found.standard_error, rtol=0.06)
    np.testing.assert_allclose(draws.mean(), found.difference, atol=0.01)


def test_one_seed_of_each_arm_is_the_paired_test_over_problems():
    ours, theirs = np.random.default_rng(0).normal(size=(2, 30))
    found, expected = compare(ours[None], theirs[None]), ttest_rel(ours, theirs)
    np.testing.assert_allclose(found.p_value, expected.pvalue)
    interval = expected.confidence_interval(0.95)
    np.testing.assert_allclose([found.low, found.high], [interval.low, interval.high])


def test_problems_that_all_go_alike_leave_the_test_over_seeds():
    ours, theirs = np.random.default_rng(0).normal(size=(2, 6, 1))
    found = compare(np.repeat(ours, 9, axis=1), np.repeat(theirs, 9, axis=1))
    expected = ttest_ind(ours[:, 0], theirs[:, 0], equal_var=False)
    np.testing.assert_allclose(found.p_value, expected.pvalue)


def test_more_seeds_decide_where_seeds_are_what_varies():
    generator = np.random.default_rng(0)
    luck = generator.normal(size=(2, 3, 1))
    luck -= luck.mean(axis=1, keepdims=True)
    ours, theirs = luck + 0.01 * generator.normal(size=(2, 3, 400))
    assert seeds_needed(ours + 30.0, theirs) == 3 < seeds_needed(ours + 1.0, theirs)
    close = compare(ours + 1.0, theirs)
    assert close.detectable > 1.0
    # four times as many seeds detect a difference that is smaller by more than the root of four
    several = compare(np.tile(ours + 1.0, (4, 1)), np.tile(theirs, (4, 1)))
    assert several.detectable < close.detectable / 2
    assert seeds_needed(ours + 1e-6, ours) is None
    assert seeds_needed(ours[:1] + 30.0, theirs) is None  # how much the first arm varies is unknown


def test_seeds_that_are_needed_count_each_arms_own():
    generator = np.random.default_rng(1)
    few = generator.normal(size=(2, 1)) + generator.normal(size=(2, 50))
    many = generator.normal(size=(10, 1)) + generator.normal(size=(10, 50))
    few += many.mean() + 0.5 - few.mean()
    number, needed = few.shape[1], seeds_needed(few, many)
    difference = few.mean() - many.mean()

    def detectable(n):
        """From the same estimates, if each arm had n seeds."""
        of_seeds, of_rest, now = [], [], 0.0
        for arm in (few, many):
            rest = arm - arm.mean(0) - arm.mean(1, keepdims=True) + arm.mean()
            mean_square = (rest**2).sum() / (len(arm) - 1) / (number - 1)
            of_seeds.append(arm.mean(1).var(ddof=1) / n)
            of_rest.append(mean_square / n / number)
            now += mean_square / len(arm) / number
        of_problems = (few.mean(0) - many.mean(0)).var(ddof=1) / number - now + sum(of_rest)
        total = max(0, of_problems) + max(0, sum(of_seeds) - sum(of_rest))
        spread = of_problems**2 / (number - 1) + sum(part**2 for part in of_seeds) / (n - 1)
        df = total**2 / spread
        return (stats.t.ppf(0.975, df) + stats.t.ppf(0.8, df)) * total**0.5

    assert needed == next(n for n in range(10, 101) if detectable(n) <= difference) > 10


@pytest.mark.parametrize(("ours", "theirs"), [(0, 0), (1, 0), (1 / 3, 1 / 6)])
@pytest.mark.parametrize("seeds", [1, 2])
def test_a_difference_that_never_varies_does_not_say_how_sure_it_is(ours, theirs, seeds):
    arms = np.full((seeds, 30), ours), np.full((seeds, 30), theirs)
    found = compare(*arms)
    assert found == (pytest.approx(ours - theirs), 0, None, None, None, None)
    assert seeds_needed(*arms) is None


def test_arms_must_have_the_same_problems():
    same = np.ones((2, 5))
    with pytest.raises(ValueError, match="on the same problems, two or more, got 5 and 4"):
        compare(same, same[:, :4])


values = hnp.arrays(float, st.tuples(st.integers(1, 4), st.just(6)), elements=st.floats(0, 1))


@given(values, values)
def test_the_other_way_round_is_the_negative(ours, theirs):
    found, other = compare(ours, theirs), compare(theirs, ours)
    np.testing.assert_allclose(found.difference, -other.difference, atol=1e-12)
    if found.low is None:
        assert other.low is None
        return
    np.testing.assert_allclose(found.low, -other.high, atol=1e-9)
    assert found.low <= found.difference <= found.high
    assert 0 <= found.p_value <= 1


def test_tokens_at_equal_accuracy_by_hand():
    """Pass@k is 0.2, 0.4, 0.5 of one arm and 0.4, 0.5, 0.6 of the other: both reach 0.5."""
    ks = np.arange(1, 4)
    ours = np.array([[[0.2, 0.4, 0.5]] * 4]), np.array([[100 * ks] * 4])
    theirs = np.array([[[0.4, 0.5, 0.6]] * 4]), np.array([[80 * ks] * 4])
    ratio, low, high = tokens_at_equal_accuracy(ours, theirs)
    assert (ratio, low, high) == pytest.approx((300 / 160,) * 3)
    # one response is more accurate than all of the other arm
    best = np.array([[[0.7, 0.8, 0.9]] * 4]), np.array([[80 * ks] * 4])
    nothing = np.zeros((1, 4, 3)), np.array([[10 * ks] * 4])
    for arms in ((ours, best), (best, ours), (nothing, ours)):
        assert tokens_at_equal_accuracy(*arms) is None


def test_where_more_responses_solve_no_more_problems_the_fewest_count():
    """One arm always solves 15 of 30 problems, the other solves them once in six."""
    ks = np.arange(1, 7)
    solved = np.repeat([1.0, 0.0], 15)[None, :, None]
    tokens = np.full((1, 30, 1), 100) * ks
    always, once = (solved * np.ones(6), tokens), (solved * ks / 6, tokens)
    assert tokens_at_equal_accuracy(always, once)[0] == pytest.approx(1 / 6)
    assert tokens_at_equal_accuracy(always, always) == (1, 1, 1)


def test_its_interval_is_that_of_seeds_and_problems():
    generator = np.random.default_rng(0)
    ks = np.arange(1, 4)
    passed = np.sort(generator.uniform(size=(3, 20, 3)), axis=-1)
    tokens = generator.uniform(50, 150, size=(3, 20, 1)) * ks
    ratio, low, high = tokens_at_equal_accuracy((passed, 2 * tokens), (passed, tokens))
    assert ratio == pytest.approx(2)
    assert 1 < low < 2 < high < 4
