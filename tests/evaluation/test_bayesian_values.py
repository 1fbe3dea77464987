"""The Bayesian value against the paper's recursion in plain loops."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.evaluation.beliefs.bayesian_values import bayesian_values
from barl_trl.posterior import posterior_weighted_values

from .. import reference
from ..test_posterior import BETAS, check, padded, rollout


@settings(max_examples=100)
@given(
    st.lists(rollout(), min_size=1, max_size=4),
    BETAS,
    st.lists(st.floats(-1, 2), min_size=4, max_size=4),
)
def test_equals_the_recursion_in_plain_loops(rollouts, beta, outcomes):
    ell, masks = padded(rollouts, fill=-3.3)
    v = torch.tensor(outcomes[: len(rollouts)], dtype=torch.float64)
    check(
        bayesian_values(ell, v, beta=beta, **masks),
        [reference.bayesian_values(r, o, beta) for r, o in zip(rollouts, outcomes, strict=False)],
    )


@settings(max_examples=50)
@given(st.lists(rollout(), min_size=2, max_size=4), BETAS)
def test_a_rollout_does_not_depend_on_its_neighbours(rollouts, beta):
    ell, masks = padded(rollouts, fill=float("nan"))
    together = bayesian_values(ell, torch.ones(len(rollouts)).double(), beta=beta, **masks)
    for b, r in enumerate(rollouts):
        ell, masks = padded([r])
        alone = bayesian_values(ell, torch.ones(1).double(), beta=beta, **masks)
        torch.testing.assert_close(together[b : b + 1, : len(r) - 1], alone)


P = torch.tensor([[[0.2, 0.6, 0.1], [0.5, 0.3, 0.1], [0.9, 0.05, 0.1]]])
ONE = torch.tensor([1.0])


@pytest.mark.parametrize("beta", [0.0, 1.0, math.inf])
def test_with_one_hypothesis_it_is_the_progress_return_as_the_training_value_is(beta):
    values = bayesian_values(P[..., :1].log(), ONE, beta=beta)
    torch.testing.assert_close(values, torch.tensor([[0.9 - 0.2 + 1, 0.9 - 0.5 + 1]]))
    training_values = posterior_weighted_values(P[..., :1].log(), ONE, beta=beta)
    torch.testing.assert_close(values, training_values)


def test_in_the_last_step_no_belief_is_left_to_change_it_is_the_training_value():
    values = bayesian_values(P.log(), ONE, beta=1.0)
    training_values = posterior_weighted_values(P.log(), ONE, beta=1.0)
    torch.testing.assert_close(values[:, -1], training_values[:, -1])
    assert (values[:, 0] - training_values[:, 0]).abs() > 0.1  # the belief at 0 is frozen there


def test_beta_zero_weighs_each_step_by_the_plausibilities_at_its_own_state():
    w = P / P.sum(dim=-1, keepdim=True)
    first, second = ((w[0, t] * (P[0, t + 1] - P[0, t])).sum() for t in range(2))
    expected = torch.stack([first + second + 1, second + 1])[None]
    torch.testing.assert_close(bayesian_values(P.log(), ONE, beta=0.0), expected)


def test_beta_inf_leaves_the_truth_alone_once_the_others_disagreed():
    values = bayesian_values(P.log(), ONE, beta=math.inf)
    first = (P[0, 0] / P[0, 0].sum() * (P[0, 1] - P[0, 0])).sum()
    expected = torch.stack([first + 0.9 - 0.5 + 1, torch.tensor(0.9 - 0.5 + 1)])[None]
    torch.testing.assert_close(values, expected)


def test_a_chain_that_moves_nothing_is_worth_its_outcome():
    still = P[:, :1].expand(-1, 4, -1).log()
    torch.testing.assert_close(bayesian_values(still, ONE, beta=1.0), torch.ones(1, 3))


def test_an_empty_chain_has_no_values_and_none_carries_a_gradient():
    ell = P.log().requires_grad_()
    assert bayesian_values(ell[:, :1], ONE, beta=1.0).shape == (1, 0)
    assert not bayesian_values(ell, ONE, beta=1.0).requires_grad
