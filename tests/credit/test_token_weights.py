"""Weights of tokens: each has its step's value, masked, whitened, on any number of processes."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.credit import CREDITS
from barl_trl.credit.token_weights import token_weights, weigh_steps

from .. import reference
from .scored import batches, check, rows, scored


def ends_of(rollouts, sizes):
    """Steps of any sizes, and the length of each completion: the end of its turn follows."""
    ends = []
    for r in rollouts:
        steps = [next(sizes) for _ in r.logps[1:]]
        ends.append([sum(steps[: n + 1]) for n in range(len(steps))])
    return ends, [(own[-1] if own else 0) + 1 for own in ends]


def spread(rollouts, values, ends):
    """Each token's value, None without a weight, by plain loops."""
    rows = []
    for r, (*steps, closing), own in zip(rollouts, values, ends, strict=True):
        sizes = [b - a for a, b in zip([0, *own], own, strict=False)]
        row = [value for value, size in zip(steps, sizes, strict=True) for _ in range(size)]
        rows.append([value if r.is_judged else None for value in [*row, closing]])
    return rows


def whitened(rows, keys):
    """Mean 0 and standard deviation 1 over the tokens whose rows have the same key."""
    result = []
    for row, key in zip(rows, keys, strict=True):
        same = [other for other, its in zip(rows, keys, strict=True) if its == key]
        known = [value for other in same for value in other if value is not None]
        mean = sum(known) / max(len(known), 1)
        variance = sum((value - mean) ** 2 for value in known) / max(len(known), 1)
        std = math.sqrt(max(variance, 1e-8))
        result.append([None if value is None else (value - mean) / std for value in row])
    return result


@settings(max_examples=40)
@given(
    batches(min_rollouts=2),
    st.randoms(use_true_random=False),
    st.sampled_from(["none", "batch", "group"]),
    st.booleans(),
)
def test_tokens_have_their_steps_value_also_on_two_processes(rollouts, random, how, is_split):
    ends, lengths = ends_of(rollouts, iter(lambda: random.randint(1, 3), None))
    plain = spread(rollouts, reference.outcome(rollouts), ends)
    groups = [r.group for r in rollouts]
    keys = {"none": groups, "batch": [0] * len(rollouts), "group": groups}[how]
    expected = plain if how == "none" else whitened(plain, keys)

    batch = scored(rollouts)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    credit = CREDITS["rloo"]._replace(credit_baseline="none", value_normalization=how)
    cuts = [0, len(rollouts) // 2, len(rollouts)] if is_split else [0, len(rollouts)]
    parts = [slice(*cut) for cut in pairwise(cuts)]

    def weigh(part, sum_over_processes):
        return token_weights(
            batch,
            credit,
            {},
            ends[part],
            mask[part],
            start=part.start,
            sum_over_processes=sum_over_processes,
        )

    moments = []  # of each process, which all of them add up
    for part in parts:
        weigh(part, lambda own: moments.append(own) or own)
    found = [weigh(part, lambda _: sum(moments)) for part in parts]

    weights, weighed = (torch.cat([getattr(f, x) for f in found]) for x in ("weights", "mask"))
    for row, is_weighed, want in zip(weights, weighed, expected, strict=True):
        known = [value for value in want if value is not None]
        assert row[is_weighed].tolist() == pytest.approx(known, rel=1e-6, abs=1e-6)
        assert not row[~is_weighed].any()


def test_values_are_the_estimators_behind_the_credits_baseline():
    rollouts = [reference.Rollout(0, [[0.0], [0.0]], outcome=v) for v in (1.0, 0.0, 0.0)]
    mask = torch.ones(3, 3, dtype=torch.bool)
    found = token_weights(scored(rollouts), CREDITS["rloo"], {}, [[2]] * 3, mask)
    assert found.values.flatten().tolist() == pytest.approx([1.0, -0.5, -0.5])
    assert found.unwhitened.tolist() == found.weights.tolist()
    assert found.weights[0].tolist() == [1.0] * 3


@settings(max_examples=30)
@given(batches(all_judged=True))
def test_settings_that_the_estimator_does_not_have_are_left_out(rollouts):
    expected = reference.subtract_baseline(reference.outcome(rollouts), rollouts, "leave_one_out")
    values = weigh_steps(scored(rollouts), CREDITS["rloo"], {"gae_lambda": 0.5})
    check(rows(values, rollouts), expected)
