"""What is logged about beliefs, against the plain loops."""

import math

import numpy as np
import pytest
import torch
from barl_trl.trainer.logging.belief_metrics import (
    clipped_tokens,
    rollout_diagnostics,
    value_spread,
)

from barl_trl.posterior import posterior

from .. import reference
from ..test_posterior import padded

ROLLOUTS = [
    [[-1.0, -2.0, -0.5], [-0.2, -3.0, -1.0], [-0.1, -4.0, -2.0]],
    [[-1.5, -0.3], [-2.5, -0.1]],
    [[-0.7]],
]


def test_rollout_diagnostics():
    ell, masks = padded(ROLLOUTS, fill=-3.3)
    values = torch.zeros(3, 2, dtype=torch.float64)
    for b, r in enumerate(ROLLOUTS):
        for t, v in enumerate(reference.posterior_weighted_values(r, [1.0] * len(r[0]), beta=2.0)):
            values[b, t] = v
    belief = posterior(ell, beta=2.0, **masks)
    got = rollout_diagnostics(belief, ell, values, masks["state_mask"], masks["hypothesis_mask"])
    for b, r in enumerate(ROLLOUTS):
        belief, d = reference.posterior(r, 2.0), reference.discrepancy(r)
        steps = reference.posterior_weighted_values(r, [1.0] * len(r[0]), 2.0)
        entropy = [-sum(w * math.log(w) for w in row) for row in belief]
        expected = {
            "value": np.mean(steps) if steps else math.nan,
            "posterior_entropy": np.mean(entropy),
            "truth_mass": np.mean([row[0] for row in belief]),
            "discrepancy": np.mean(d[-1][1:]) if len(r[0]) > 1 else math.nan,
        }
        for name, value in expected.items():
            np.testing.assert_allclose(getattr(got, name)[b], value, atol=1e-12, err_msg=name)


def test_value_spread_leaves_out_rollouts_without_a_value():
    values = torch.tensor([1.0, 3.0, math.nan, 5.0, 9.0, 7.0])
    outcomes = torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0, 1.0])
    assert value_spread(values, outcomes, group_size=3) == pytest.approx(1.0)
    assert math.isnan(value_spread(values[3:], outcomes[3:], group_size=3))


@pytest.mark.parametrize(
    ("mode", "bounds", "ratio", "expected"),
    [
        ("token_truncate", (None, 3.0), [[0.1, 3.0, 1.0], [3.0, 2.9, 3.0]], 2),
        ("token_truncate", (0.1, 3.0), [[0.1, 3.0, 1.0], [3.0, 2.9, 3.0]], 3),
        ("token_mask", (0.5, 3.0), [[0.0, 3.0, 1.0], [0.0, 2.9, 0.0]], 2),
        ("sequence_truncate", (None, 2.1), [[2.1], [0.3]], 3),
        ("sequence_mask", (None, 3.0), [[1.4], [0.0]], 2),
    ],
)
def test_clipped_tokens_are_those_at_a_bound_or_masked(mode, bounds, ratio, expected):
    mask = torch.tensor([[True, True, True], [True, True, False]])
    low, high = bounds
    got = clipped_tokens(torch.tensor(ratio), mask, mode=mode, clip_min=low, clip_max=high)
    assert got.tolist() == [expected, 5]
