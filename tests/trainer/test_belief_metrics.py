"""What is logged about beliefs, against the plain loops."""

import math

import numpy as np
import pytest
import torch

from barl_trl.posterior import posterior
from barl_trl.trainer.logging.belief_log import _clipped_tokens
from barl_trl.trainer.logging.belief_metrics import belief_metrics

from .. import reference
from ..test_posterior import padded
from .made_up import rollouts, weighed

ROLLOUTS = [
    [[-1.0, -2.0, -0.5], [-0.2, -3.0, -1.0], [-0.1, -4.0, -2.0]],
    [[-1.5, -0.3], [-2.5, -0.1]],
    [[-0.7]],
]


def test_metrics_of_a_rollout_are_those_of_the_loops():
    ell, masks = padded(ROLLOUTS, fill=-3.3)
    values = torch.zeros(3, 2, dtype=torch.float64)
    for b, r in enumerate(ROLLOUTS):
        for t, v in enumerate(reference.posterior_weighted_values(r, [1.0] * len(r[0]), beta=2.0)):
            values[b, t] = v
    scored = rollouts(belief=posterior(ell, beta=2.0, **masks), answer_logps=ell, **masks)
    seen = []
    got = belief_metrics(scored, weighed(values), gather=lambda local: seen.append(local) or local)
    for b, r in enumerate(ROLLOUTS):
        belief, d = reference.posterior(r, 2.0), reference.discrepancy(r)
        steps = reference.posterior_weighted_values(r, [1.0] * len(r[0]), 2.0)
        entropy = [-sum(w * math.log(w) for w in row) for row in belief]
        moved = sum(abs(last - first) for last, first in zip(belief[-1], belief[0], strict=True))
        expected = {
            "value": np.mean(steps) if steps else math.nan,
            "posterior_entropy": np.mean(entropy),
            "truth_mass": np.mean([row[0] for row in belief]),
            "belief_shift": moved / 2 if len(r) > 1 and len(r[0]) > 1 else math.nan,
            "discrepancy": np.mean(d[-1][1:]) if len(r[0]) > 1 else math.nan,
        }
        assert [*got] == [*expected]
        np.testing.assert_allclose(seen[0][b], [*expected.values()], atol=1e-12)
    np.testing.assert_allclose([*got.values()], np.nanmean(seen[0], axis=0), atol=1e-12)


def test_rollouts_without_a_weight_are_left_out():
    ell, masks = padded(ROLLOUTS[:1] * 2, fill=0.0)
    belief = torch.stack([posterior(ell[:1], beta=b)[0] for b in (0.0, 5.0)])
    scored = rollouts(belief=belief, answer_logps=ell, **masks)
    is_weighed = torch.tensor([[True, False], [False, False]])
    got = belief_metrics(scored, weighed(torch.zeros(2, 2), is_weighed), gather=lambda local: local)
    assert got["truth_mass"] == pytest.approx(belief[0, :, 0].mean().item())


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
    got = _clipped_tokens(torch.tensor(ratio), mask, mode=mode, clip_min=low, clip_max=high)
    assert got.tolist() == [expected, 5]
