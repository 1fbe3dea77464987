"""Accuracy by exact recursion, which samples nothing, beside the rollouts; and what they record."""

import math
import re
from functools import cache

import numpy as np
import pytest

from experiments.credit.explorer.simulation import (
    ANSWER_TOKENS,
    INITIAL_PARAMETERS,
    LINE_TOKENS,
    WORLDS,
    World,
    simulate,
)

LATER = np.array([-0.8, -1.5, -3.0, -2.0, -1.0, -1.0])


def exact_accuracy(parameters, condition, tries=None):
    """Mean over the numbers of candidates of the probability to answer right."""
    tries = condition.tries if tries is None else tries
    by_count = [_exact(parameters, n, tries, condition) for n in condition.candidates]
    return sum(by_count) / len(by_count)


def _exact(parameters, n, tries, condition):
    again, guess_again = math.exp(parameters[0]), math.exp(parameters[1])
    boost = math.exp(condition.overconfidence)

    def guess_is_right(k):
        """After trying k different wrong candidates: the favourite is right, wrong or excluded."""
        total = k * guess_again + n - k
        cases = [
            (1, boost / (total + boost - 1)),
            (k, 1 / (total + (boost - 1) * guess_again)),
            (n - 1 - k, 1 / (total + boost - 1)),
        ]
        return sum(number * right for number, right in cases) / n

    @cache
    def value(t, k):
        """From state t on, where k different candidates were tried and none was right."""
        p_end = 1 / (1 + math.exp(-parameters[2 + min(t - 1, 3)])) if t else 0
        result = p_end * guess_is_right(k)
        if t < tries:
            total = k * again + n - k
            result += (1 - p_end) * 1 / total
            result += (1 - p_end) * k * again / total * value(t + 1, k) if k else 0
            result += (1 - p_end) * (n - 1 - k) / total * value(t + 1, k + 1) if k < n - 1 else 0
        return result

    return value(0, 0)


def drawn(name="standard", parameters=INITIAL_PARAMETERS, prompts=50, group_size=8, **settings):
    rng = np.random.default_rng(settings.pop("seed", 0))
    return simulate(parameters, WORLDS[name], prompts, group_size, rng, **settings)


@pytest.mark.parametrize("parameters", [INITIAL_PARAMETERS, LATER], ids=["initial", "later"])
@pytest.mark.parametrize("name", WORLDS)
def test_accuracy_is_the_exact_one(name, parameters):
    rollouts = drawn(name, parameters, prompts=20_000, group_size=1)
    exact = exact_accuracy(parameters, WORLDS[name])
    assert rollouts.outcomes.mean() == pytest.approx(exact, abs=4 * 0.5 / math.sqrt(20_000))


@pytest.mark.parametrize("parameters", [INITIAL_PARAMETERS, LATER], ids=["initial", "later"])
@pytest.mark.parametrize("name", WORLDS)
def test_scores_are_zero_on_average(name, parameters):
    scores = drawn(name, parameters, prompts=20_000, group_size=1).scores.sum(axis=1)
    error = scores.std(axis=0) / math.sqrt(len(scores))
    assert (np.abs(scores.mean(axis=0)) < 4 * error + 1e-12).all()
    assert (error > 0).all()


def test_rollouts_that_are_cut_off_are_flagged_and_used_all_tokens():
    rollouts = drawn("cut_off", LATER)
    cut, budget = rollouts.is_cut_off, 5 * LINE_TOKENS + ANSWER_TOKENS
    assert 0.1 < cut.mean() < 0.9
    assert (rollouts.num_tokens[cut] == budget).all()
    assert (rollouts.num_tokens <= budget).all()
    assert not rollouts.outcomes[cut].any()
    before, after = rollouts.guesses[cut][:, -2], rollouts.guesses[cut][:, -1]
    np.testing.assert_array_equal(before, after)  # half a line tells nothing
    # that it went on counts
    gave_up = 1 / (1 + math.exp(-LATER[5]))
    np.testing.assert_allclose(rollouts.scores[cut][:, -1, 5], -gave_up)


def test_longer_budget_changes_only_what_was_cut_off():
    short, long = (drawn("cut_off", LATER, tries=tries) for tries in (5, 30))
    ended = ~short.is_cut_off
    np.testing.assert_array_equal(short.answers[ended], long.answers[ended])
    assert long.outcomes.mean() > short.outcomes.mean() + 0.05


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"candidates": (1, 7)}, "candidates must be at least 2, got (1, 7): (7,) is usual."),
        ({"tries": 0}, "tries and evaluation_tries must be at least 1, got 0 and 30."),
    ],
)
def test_impossible_conditions_are_refused(settings, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        World(**settings)
