"""What the weights do, against plain loops."""

import math
import re

import numpy as np
import pytest
import torch
from barl_trl.trainer.logging.credit_metrics import (
    advice,
    mean_and_spread,
    outcome_gains,
    weight_moments,
    weight_shares,
)
from hypothesis import given
from hypothesis import strategies as st

from barl_trl.posterior import posterior, posterior_weighted_values

from .. import reference

logps = st.floats(-6, 0)


@st.composite
def one_hot_rollouts(draw):
    """A rollout that ends with one of its hypotheses: [state][hypothesis], its own, and beta."""
    hypotheses = draw(st.integers(2, 4))
    own = draw(st.integers(0, hypotheses - 1))
    row = st.lists(logps, min_size=hypotheses, max_size=hypotheses)
    ell = draw(st.lists(row, min_size=1, max_size=4))
    last = [0.0 if i == own else -math.inf for i in range(hypotheses)]
    return [*ell, last], own, draw(st.sampled_from([0.0, 1.0, 5.0, math.inf]))


@given(one_hot_rollouts(), st.sampled_from([0.0, 1.0]))
def test_a_value_is_the_outcome_and_the_own_belief_but_for_a_baseline(rollout, outcome):
    """V(t) = v + w_own(t) - sum_i w_i(t) p_i(t)."""
    ell, own, beta = rollout
    got = posterior_weighted_values(
        torch.tensor([ell], dtype=torch.float64), torch.tensor([outcome]), beta=beta
    )[0]
    for t, weights in enumerate(reference.posterior(ell, beta)[:-1]):
        baseline = sum(w * math.exp(e) for w, e in zip(weights, ell[t], strict=True))
        assert got[t].item() == pytest.approx(outcome + weights[own] - baseline, abs=1e-6)


@given(one_hot_rollouts())
def test_the_gain_is_what_separates_a_right_rollout_from_a_wrong_one(rollout):
    """Both with the same history, one ending in the truth, one in y_j."""
    ell, own, beta = rollout
    j = own or 1
    ends = [[0.0 if i == end else -math.inf for i in range(len(ell[0]))] for end in (0, j)]
    both = torch.tensor([[*ell[:-1], end] for end in ends], dtype=torch.float64)
    values = posterior_weighted_values(both, torch.tensor([1.0, 0.0]), beta=beta)
    belief = posterior(both, beta=beta)
    mask = torch.ones(2, len(ell), dtype=torch.bool)
    count, total, _ = outcome_gains(belief, [0, j], mask).tolist()
    assert count == len(ell) - 1
    assert total == pytest.approx((values[0] - values[1]).sum().item(), abs=1e-6)


def test_gains_are_those_of_wrong_rollouts_with_a_hypothesis():
    belief = torch.tensor([[[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.0, 1.0, 0.0]]]).repeat(4, 1, 1)
    mask = torch.tensor([[True, True, True], [True, True, False], [True] * 3, [True] * 3])
    totals = outcome_gains(belief, [1, 2, 0, None], mask)
    gains = [1 + 0.5 - 0.3, 1 + 0.1 - 0.8, 1 + 0.5 - 0.2]
    assert totals[0] == 3
    assert mean_and_spread(totals) == pytest.approx((np.mean(gains), np.std(gains)), abs=1e-6)
    nothing = outcome_gains(belief, [None] * 4, mask)
    assert all(map(math.isnan, mean_and_spread(nothing)))


def shares(weights, outcomes, lengths, group_size):
    """Of rollouts with so many tokens; a rollout of length 0 has no weight."""
    mask = torch.arange(weights.shape[1]) < torch.tensor(lengths)[:, None]
    groups = torch.arange(len(weights)) // group_size
    moments = [
        weight_moments(
            weights[rows], outcomes[rows], mask[rows], groups[rows], num_groups=len(weights) // 2
        )
        for rows in (slice(0, 3), slice(3, None))  # two processes, which share a group
    ]
    return weight_shares(sum(moments))


def test_shares_are_those_of_a_regression_inside_prompts():
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(8, 5, generator=generator, dtype=torch.float64)
    outcomes = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 0.0, math.nan, 1.0])
    lengths = [5, 2, 1, 4, 5, 3, 0, 2]
    got = shares(weights, outcomes, lengths, group_size=2)
    value = np.concatenate([weights[i, :n].numpy() for i, n in enumerate(lengths)])
    outcome, group = (np.repeat(x, lengths) for x in (outcomes.numpy(), np.arange(8) // 2))
    means = {g: (value[group == g].mean(), outcome[group == g].mean()) for g in range(4)}
    inside = value - [means[g][0] for g in group]
    around = outcome - [means[g][1] for g in group]
    assert got["outcome_r2"] == pytest.approx(np.corrcoef(inside, around)[0, 1] ** 2)
    assert got["value_between_prompts"] == pytest.approx(1 - inside.var() / value.var())
    assert got["tied_groups"] == 3 / 4  # of the last prompt one rollout was judged


def test_plain_rl_is_explained_by_the_outcome():
    outcomes = torch.tensor([1.0, 0.0, 0.0, 1.0])
    got = shares(outcomes[:, None].expand(4, 3), outcomes, [3, 2, 1, 3], group_size=2)
    assert got["outcome_r2"] == pytest.approx(1)


@pytest.mark.parametrize("outcomes", [[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1.0]])
def test_without_a_signal_inside_prompts_nothing_is_explained(outcomes):
    got = shares(torch.ones(4, 3), torch.tensor(outcomes), [3, 2, 1, 3], group_size=2)
    assert math.isnan(got["outcome_r2"]) and math.isnan(got["value_between_prompts"])
    assert got["tied_groups"] == (outcomes[0] == outcomes[1])


@pytest.mark.parametrize(
    ("gain", "spread", "r2", "beta", "text"),
    [
        (0.45, 0.2, 0.5, 1.0, "is 0.45, where plain RL has 1: .* Try consistency_beta=inf."),
        (0.45, 0.2, 0.5, math.inf, "Try credit='grpo'."),
        (
            1.03,
            0.07,
            0.98,
            1.0,
            "is 1.03 with a spread of 0.07: BARL's weights are nearly those of plain RL.",
        ),
    ],
)
def test_advice_names_the_option_that_helps(gain, spread, r2, beta, text):
    assert re.search(text, advice(gain, spread, r2, consistency_beta=beta))


@pytest.mark.parametrize(
    ("gain", "spread", "r2"),
    [
        (1.0, 0.3, 0.99),
        (0.8, 0.05, 0.99),
        (1.0, 0.05, 0.5),  # rollouts are cut off, or rewarded for their own answers
        (1.0, 0.05, math.nan),
        (math.nan, math.nan, 0.99),
    ],
)
def test_else_there_is_none(gain, spread, r2):
    assert advice(gain, spread, r2, consistency_beta=1.0) is None
