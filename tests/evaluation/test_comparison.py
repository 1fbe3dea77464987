"""Differences of arms over seeds and problems: by hand, by bootstrap, and against a known truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from barl_trl.evaluation.comparison import arms_of, compare, holm, seeds_needed

from .files import problems


def probabilities(generator, shift, *, seeds, of_seeds, problems):
    """How likely each of an arm's models solves each problem."""
    luck = of_seeds * generator.normal(size=(seeds, 1))
    return 1 / (1 + np.exp(-(shift + luck + problems)))


@pytest.mark.parametrize(("seeds", "num_problems", "samples"), [(3, 50, 1), (5, 100, 4)])
def test_intervals_cover_the_truth(seeds, num_problems, samples):
    generator = np.random.default_rng(1)
    sizes = {"seeds": 2000, "of_seeds": 0.3, "problems": 1.5 * generator.normal(size=1000)}
    truth = probabilities(generator, 0.4, **sizes).mean()
    truth -= probabilities(generator, 0, **sizes).mean()
    covered, runs = 0, 1000
    for _ in range(runs):
        sizes |= {"seeds": seeds, "problems": 1.5 * generator.normal(size=num_problems)}
        ours, theirs = (
            generator.binomial(samples, probabilities(generator, shift, **sizes)) / samples
            for shift in (0.4, 0)
        )
        found = compare(ours, theirs)
        covered += found.low <= truth <= found.high
    assert 0.925 <= covered / runs <= 0.975


def test_limits_are_the_tests_of_textbooks():
    ours, theirs = np.random.default_rng(0).normal(size=(2, 30))
    found, expected = compare(ours[None], theirs[None]), stats.ttest_rel(ours, theirs)
    np.testing.assert_allclose(found.p_value, expected.pvalue)
    interval = expected.confidence_interval(0.95)
    np.testing.assert_allclose([found.low, found.high], [interval.low, interval.high])
    # problems that all go alike leave the test over seeds
    ours, theirs = np.random.default_rng(0).normal(size=(2, 6, 1))
    found = compare(np.repeat(ours, 9, axis=1), np.repeat(theirs, 9, axis=1))
    expected = stats.ttest_ind(ours[:, 0], theirs[:, 0], equal_var=False)
    np.testing.assert_allclose(found.p_value, expected.pvalue)


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
    assert seeds_needed(few + 1e9, many) == 10
    assert seeds_needed(few - difference, many) is None
    assert seeds_needed(few[:1] + 30.0, many) is None  # nobody knows how much that arm varies


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_difference_that_never_varies_does_not_say_how_sure_it_is(seeds):
    arms = np.full((seeds, 30), 1 / 3), np.full((seeds, 30), 1 / 6)
    assert compare(*arms) == (pytest.approx(1 / 6), 0, None, None, None, None)
    assert seeds_needed(*arms) is None
    with pytest.raises(ValueError, match="on the same problems"):
        compare(arms[0], arms[1][:, :4])


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


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_rejects_as_his_steps_do(p_values):
    corrected = holm(p_values)
    for level in (0.01, 0.05, 0.5):
        rejected, left = set(), sorted(range(len(p_values)), key=p_values.__getitem__)
        while left and p_values[left[0]] * len(left) <= level:
            rejected.add(left.pop(0))
        assert rejected == {n for n, p in enumerate(corrected) if p <= level}


# From responses


def test_arms_are_arrays_of_seeds_by_problems_by_responses():
    runs = {
        "ours": [{"math": problems([[1, 0], [1, 1]])}, {"math": problems([[0, 0, 0], [1, 0, 0]])}],
        "theirs": [{"math": problems([[0, 1], [0, 0]], tokens=30)}],
    }
    found = arms_of("math", runs)
    # two responses of each problem at most: so many have all runs
    expected = [[[0.5, 1], [1, 1]], [[0, 0], [1 / 3, 2 / 3]]]
    np.testing.assert_allclose(found["ours"][0], expected)
    np.testing.assert_allclose(found["theirs"][1], [[[30, 60], [30, 60]]])


def test_runs_that_cannot_be_compared_are_refused():
    hot, cold = ({"math": problems([[1, 0]], drawing={"temperature": t})} for t in (1.0, 0.6))
    arms_of("math", {"hot": [hot, {"math": problems([[1, 0]])}], "cold": [cold]})
    with pytest.raises(ValueError, match="drawn tokens alike"):
        arms_of("math", {"both": [hot, cold]})
    others = [problems([[1]]), problems([[1], [0], [1]]), problems([[1], [0]], problem="2 + 2?")]
    for other in [*({"math": one} for one in others), {"gsm8k": problems([[1], [0]])}]:
        with pytest.raises(ValueError, match="the same problems"):
            arms_of("math", {"a": [{"math": problems([[1], [0]])}], "b": [other]})
