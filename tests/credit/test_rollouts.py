"""What estimators see, and what holds for all of them: padding, order and unjudged rollouts."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.credit import find_credit
from barl_trl.credit.baselines import subtract_baseline
from barl_trl.credit.rollouts import at_last_state, differences, group_sums

from ..reference import Rollout
from .scored import EVERY_CREDIT, batches, check, likelihoods, rows, scored


def credited(name, given_settings, batch, rollouts):
    """Values behind the credit's own baseline."""
    credit = find_credit(name)
    values = credit.function(batch, **given_settings)
    found = subtract_baseline(values, batch, baseline=credit.credit_baseline)
    return rows(found, rollouts)


@settings(max_examples=10)
@given(batches(), st.data())
@EVERY_CREDIT
def test_rollouts_that_are_not_judged_get_0_and_move_no_others(
    name, given_settings, rollouts, data
):
    def something_else(r):
        logps = data.draw(likelihoods(len(r.logps[0])))
        return r._replace(logps=logps, outcome=5.0, is_cut_off=not r.is_cut_off, member=0)

    others = [r if r.is_judged else something_else(r) for r in rollouts]
    before = credited(name, given_settings, scored(rollouts), rollouts)
    after = credited(name, given_settings, scored(others), others)
    check(after, before, [r.is_judged for r in rollouts], 1e-7)
    assert not any(any(v) for r, v in zip(rollouts, after, strict=True) if not r.is_judged)


@settings(max_examples=10)
@given(batches(), st.sampled_from([math.nan, -math.inf, -3.3]))
@EVERY_CREDIT
def test_what_stands_in_padding_is_not_looked_at(name, given_settings, rollouts, padding):
    before = credited(name, given_settings, scored(rollouts), rollouts)
    after = credited(name, given_settings, scored(rollouts, padding=padding), rollouts)
    check(after, before)


@settings(max_examples=10)
@given(batches(), st.randoms())
@EVERY_CREDIT
def test_the_order_of_rollouts_does_not_matter(name, given_settings, rollouts, random):
    order = list(range(len(rollouts)))
    random.shuffle(order)
    shuffled = [rollouts[i] for i in order]
    before = credited(name, given_settings, scored(rollouts), rollouts)
    after = credited(name, given_settings, scored(shuffled), shuffled)
    check(after, [before[i] for i in order], tolerance=1e-7)


@settings(max_examples=10)
@given(batches())
@EVERY_CREDIT
def test_values_are_finite_in_the_dtype_of_the_scores(name, given_settings, rollouts):
    values = find_credit(name).function(scored(rollouts, dtype=torch.float32), **given_settings)
    for part in values:
        assert part.dtype == torch.float32
        assert part.isfinite().all()


@EVERY_CREDIT
def test_empty_completions_have_no_steps(name, given_settings):
    rollouts = [Rollout(0, [[-1.0]], v) for v in (0.0, 1.0)]
    values = find_credit(name).function(scored(rollouts), **given_settings)
    assert values.steps.shape == (2, 0)
    assert values.closing.isfinite().all()


@EVERY_CREDIT
def test_the_batch_is_not_changed(name, given_settings):
    batch = scored([Rollout(0, [[-1.0], [-math.inf]], v, member=0) for v in (0.0, 1.0)])
    before = {k: v.clone() for k, v in vars(batch).items() if isinstance(v, torch.Tensor)}
    find_credit(name).function(batch, **given_settings)
    for field, tensor in before.items():
        assert torch.equal(getattr(batch, field), tensor)


def test_the_plausibility_of_the_truth_is_at_most_1_and_0_in_padding():
    """Rounding in the model's dtype may leave a log-likelihood above 0."""
    batch = scored([Rollout(0, [[0.01, -1.0], [-math.inf, 0.0]]), Rollout(0, [[0.0, 0.0]])])
    assert batch.truth_logps.tolist() == [[0.0, -math.inf], [0.0, 0.0]]
    assert batch.truth_plausibility.tolist() == [[1.0, 0.0], [1.0, 0.0]]


def test_a_step_exists_where_the_state_that_it_leads_to_does():
    batch = scored([Rollout(0, [[-1.0]] * 3), Rollout(0, [[-1.0]])])
    assert batch.step_mask.tolist() == [[True, True], [False, False]]


def test_rows_are_part_of_the_batch():
    rollouts = [Rollout(g, [[-1.0 - g], [-2.0]], 0.5 * g, member=0) for g in range(4)]
    part, expected = scored(rollouts).rows(1, 3), scored(rollouts[1:3])
    for field, value in vars(expected).items():
        found = getattr(part, field)
        is_tensor = isinstance(value, torch.Tensor)
        assert torch.equal(found, value) if is_tensor else found == value


def test_a_batch_cannot_be_changed():
    batch = scored([Rollout(0, [[-1.0]])])
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.groups = torch.zeros(1, dtype=torch.long)


def test_last_states_and_differences_stop_where_a_rollout_does():
    values = torch.tensor([[1.0, 3.0, 7.0], [2.0, 9.0, 9.0], [4.0, 9.0, 9.0]])
    state_mask = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0]]).bool()
    assert at_last_state(values, state_mask).tolist() == [7.0, 9.0, 4.0]
    assert differences(values, state_mask[:, 1:]).tolist() == [[2.0, 4.0], [7.0, 0.0], [0.0, 0.0]]


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from([7, -1, 30]), st.floats(-9, 9)), min_size=1, max_size=9))
def test_each_row_gets_the_sum_of_its_group(pairs):
    groups = torch.tensor([g for g, _ in pairs])
    values = torch.tensor([[x, 2 * x] for _, x in pairs], dtype=torch.float64)
    sums = [sum(y for h, y in pairs if h == g) for g, _ in pairs]
    expected = torch.tensor([[s, 2 * s] for s in sums], dtype=torch.float64)
    torch.testing.assert_close(group_sums(values, groups), expected)
