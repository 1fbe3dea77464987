"""Whitening of token weights: the released code's over the whole rollout batch, or within each
group.
"""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.credit.whitening import moments, standardize


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([1, 2]))
def test_valid_tokens_of_a_group_get_mean_0_and_std_1_also_when_split_over_processes(
    seed, rows, processes
):
    rng = torch.Generator().manual_seed(seed)
    groups = torch.arange(rows * 2) % 2
    values = torch.randn(rows * 2, 7, generator=rng) * 3 + 10 * groups[:, None]
    mask = torch.rand(rows * 2, 7, generator=rng) < 0.6
    parts = zip(
        values.chunk(processes), mask.chunk(processes), groups.chunk(processes), strict=True
    )
    total = sum(moments(v, m, g, num_groups=2) for v, m, g in parts)
    white = standardize(values, groups, total)
    for g in range(2):
        valid = (mask & (groups[:, None] == g)).numpy()
        x = values.numpy()[valid].astype(np.float64)
        if len(x) > 1:
            np.testing.assert_allclose(white.numpy()[valid], (x - x.mean()) / x.std(), atol=1e-5)


def test_constant_values_become_zero_not_noise():
    values, groups = torch.full((3, 5), 0.1), torch.zeros(3, dtype=torch.long)
    white = standardize(
        values, groups, moments(values, torch.ones(3, 5, dtype=torch.bool), groups, num_groups=1)
    )
    assert white.abs().max() < 1e-3


def test_an_empty_batch_stays_finite():
    values, groups = torch.ones(1, 2), torch.zeros(1, dtype=torch.long)
    white = standardize(
        values, groups, moments(values, torch.zeros(1, 2, dtype=torch.bool), groups, num_groups=1)
    )
    assert white.isfinite().all()
