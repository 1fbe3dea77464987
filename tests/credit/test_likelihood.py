"""The likelihood of the true answer as a reward: no outcome is looked at."""

import math

import pytest
import torch
from hypothesis import given, settings

from barl_trl.credit.likelihood import likelihood, rlpr

from .. import reference
from ..reference import Rollout
from .scored import batches, check_against, group, rows, scored

BOTH = pytest.mark.parametrize("estimator", [rlpr, likelihood])


@settings(max_examples=30)
@given(batches())
@BOTH
def test_equals_the_plain_loops(estimator, rollouts):
    check_against(getattr(reference, estimator.__name__), estimator, rollouts)


@settings(max_examples=30)
@given(batches())
@BOTH
def test_the_outcome_is_not_looked_at(estimator, rollouts):
    others = [r._replace(outcome=1 - r.outcome) for r in rollouts]
    assert rows(estimator(scored(others)), others) == rows(estimator(scored(rollouts)), rollouts)


def test_rlpr_standardises_the_gain_over_the_whole_reasoning():
    rollouts = [*group(0.0, plausibilities=(0.2, 0.9, 0.7)), *group(0.0, plausibilities=(0.2, 0.4))]
    expected = torch.tensor([0.15, -0.15], dtype=torch.float64) / (0.3 / math.sqrt(2) + 1e-4)
    torch.testing.assert_close(rlpr(scored(rollouts)).steps[:, 0], expected)


def test_rlpr_takes_a_loss_for_no_gain():
    lost, unmoved = ((0.5, 0.1), (0.5, 0.5))
    rollouts = [r for p in (lost, unmoved) for r in group(0.0, plausibilities=p)]
    assert not rlpr(scored(rollouts)).steps.any()


def test_rlpr_gives_0_where_rewards_tie():
    assert not rlpr(scored(group(1.0, 0.0, 1.0))).steps.any()


def test_likelihood_is_that_behind_the_whole_rollout():
    values = likelihood(scored([Rollout(0, [[-3.0], [-9.0], [-2.0]]), Rollout(0, [[-4.0]])]))
    assert values.steps.tolist() == [[-2.0, -2.0], [0.0, 0.0]]
    assert values.closing.tolist() == [-2.0, -4.0]


def test_likelihood_stays_finite_where_the_truth_is_impossible():
    assert likelihood(scored([Rollout(0, [[-math.inf]])])).closing.tolist() == [-100.0]
