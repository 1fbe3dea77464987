"""Generalised advantage estimation against every term of its sum, and its two limits."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.credit import find_credit
from barl_trl.credit.baselines import subtract_baseline
from barl_trl.credit.gae import advantages, gae, gae_posterior

from .. import reference
from .scored import batches, check, check_against, group, rows, scored

CRITICS = pytest.mark.parametrize("estimator", [gae, gae_posterior])


def critic_of(r, estimator):
    return r.plausibilities if estimator is gae else [row[0] for row in r.belief]


@settings(max_examples=30)
@given(batches(), st.sampled_from([0.0, 0.5, 0.95, 1.0]))
@CRITICS
def test_equals_the_plain_loops(estimator, rollouts, gae_lambda):
    twin = getattr(reference, estimator.__name__)
    check_against(twin, estimator, rollouts, gae_lambda=gae_lambda)


@settings(max_examples=30)
@given(batches())
@CRITICS
def test_lambda_1_is_the_outcome_less_the_critic(estimator, rollouts):
    found = rows(estimator(scored(rollouts), gae_lambda=1.0), rollouts)
    check(found, [[r.outcome - value for value in critic_of(r, estimator)] for r in rollouts])


@settings(max_examples=30)
@given(batches())
@CRITICS
def test_lambda_0_is_what_one_step_changes_and_at_the_end_what_the_outcome_adds(
    estimator, rollouts
):
    found = rows(estimator(scored(rollouts), gae_lambda=0.0), rollouts)
    values = [[*critic_of(r, estimator), r.outcome] for r in rollouts]
    check(found, [[v[t + 1] - v[t] for t in range(len(v) - 1)] for v in values])


@settings(max_examples=30)
@given(batches(min_rollouts=2, all_judged=True), st.floats(0.01, 1))
@CRITICS
def test_with_a_flat_belief_and_lambda_1_behind_leave_one_out_it_is_rloo(estimator, rollouts, p):
    rollouts = [r._replace(logps=[[math.log(p)] for _ in r.logps]) for r in rollouts]
    batch, rloo = scored(rollouts), find_credit("rloo")
    found = subtract_baseline(estimator(batch), batch, baseline="leave_one_out")
    plain = subtract_baseline(rloo.function(batch), batch, baseline=rloo.credit_baseline)
    check(rows(found, rollouts), rows(plain, rollouts))


def test_lambda_halves_what_comes_a_step_later():
    values = gae(scored(group(1.0, plausibilities=(0.5, 0.75, 0.25))), gae_lambda=0.5)
    expected = torch.tensor([[0.25 + 0.5 * -0.125, -0.5 + 0.5 * 0.75]], dtype=torch.float64)
    torch.testing.assert_close(values.steps, expected)
    torch.testing.assert_close(values.closing, torch.tensor([0.75], dtype=torch.float64))


def test_ends_replace_outcomes():
    critic, state_mask = torch.tensor([[0.2, 0.6]]), torch.ones(1, 2, dtype=torch.bool)
    found = advantages(critic, torch.tensor([0.6]), state_mask, 1.0)
    torch.testing.assert_close(found.steps, torch.tensor([[0.4]]))
    assert found.closing.tolist() == [0.0]
