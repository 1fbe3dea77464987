"""What is subtracted: against plain loops, and whom each baseline compares with."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.credit.barl import barl
from barl_trl.credit.baselines import subtract_baseline
from barl_trl.credit.outcome import outcome
from barl_trl.posterior import StepValues

from .. import reference
from .scored import batches, check, group, rows, scored

BASELINES = ["none", "batch", "group", "leave_one_out", "step"]
EVERY_BASELINE = pytest.mark.parametrize("baseline", BASELINES)


def subtracted(rollouts, values, baseline):
    """`values`: rows as [`rows`] returns them."""
    batch = scored(rollouts)
    steps = torch.zeros(batch.step_mask.shape, dtype=torch.float64)
    for row, (*of_steps, _) in zip(steps, values, strict=True):
        row[: len(of_steps)] = torch.tensor(of_steps, dtype=torch.float64)
    closing = torch.tensor([row[-1] for row in values], dtype=torch.float64)
    return rows(subtract_baseline(StepValues(steps, closing), batch, baseline=baseline), rollouts)


@settings(max_examples=30)
@given(batches())
@EVERY_BASELINE
def test_equals_the_plain_loops(baseline, rollouts):
    values = rows(barl(scored(rollouts)), rollouts)
    expected = reference.subtract_baseline(values, rollouts, baseline)
    check(subtracted(rollouts, values, baseline), expected)


@settings(max_examples=30)
@given(batches())
@EVERY_BASELINE
def test_rollouts_that_are_not_judged_get_0_and_move_no_others(baseline, rollouts):
    values = rows(barl(scored(rollouts)), rollouts)
    other = [v if r.is_judged else [55.0] * len(v) for r, v in zip(rollouts, values, strict=True)]
    found = subtracted(rollouts, other, baseline)
    assert found == subtracted(rollouts, values, baseline)
    assert not any(any(v) for r, v in zip(rollouts, found, strict=True) if not r.is_judged)


@settings(max_examples=30)
@given(batches(all_judged=True), st.data())
@pytest.mark.parametrize("baseline", ["leave_one_out", "step"])
def test_what_is_subtracted_does_not_depend_on_the_rollouts_own_values(baseline, rollouts, data):
    values = rows(barl(scored(rollouts)), rollouts)
    chosen = data.draw(st.integers(0, len(rollouts) - 1))
    moved = list(values)
    moved[chosen] = [x + 8 for x in values[chosen]]
    before, after = (subtracted(rollouts, v, baseline)[chosen] for v in (values, moved))
    assert after == pytest.approx([x + 8 for x in before])


@settings(max_examples=30)
@given(batches(all_judged=True))
def test_behind_the_mean_of_all_or_of_the_group_the_means_of_rollouts_sum_to_0(rollouts):
    values = rows(barl(scored(rollouts)), rollouts)

    def total(found, number=None):
        kept = [v for r, v in zip(rollouts, found, strict=True) if number in (None, r.group)]
        return sum(reference.mean(v[:-1] or v) for v in kept)

    assert total(subtracted(rollouts, values, "batch")) == pytest.approx(0, abs=1e-9)
    for number in {r.group for r in rollouts}:
        assert total(subtracted(rollouts, values, "group"), number) == pytest.approx(0, abs=1e-9)


def test_leave_one_out_is_rloo():
    batch = scored(group(1.0, 0.0, 0.0))
    values = subtract_baseline(outcome(batch), batch, baseline="leave_one_out")
    torch.testing.assert_close(values.closing, torch.tensor([1.0, -0.5, -0.5], dtype=torch.float64))


@pytest.mark.parametrize("baseline", ["group", "leave_one_out", "step"])
def test_a_tied_group_gets_0(baseline):
    batch = scored([*group(0.25, 0.25, 0.25), *group(1.0, 1.0, number=1)])
    values = subtract_baseline(outcome(batch), batch, baseline=baseline)
    assert not values.steps.any()
    assert not values.closing.any()


def test_a_rollout_without_others_keeps_its_values():
    assert subtracted(group(1.0), [[3.0, 4.0]], "leave_one_out") == [[3.0, 4.0]]
    assert subtracted(group(1.0), [[3.0, 4.0]], "step") == [[3.0, 4.0]]


def test_a_rollout_without_steps_counts_with_its_closing_value():
    rollouts = [*group(0.0, plausibilities=(0.5,)), *group(0.0)]
    assert subtracted(rollouts, [[6.0], [1.0, 9.0]], "leave_one_out") == [[5.0], [-5.0, 3.0]]


def test_step_compares_with_the_others_at_the_same_step_and_at_their_end():
    """Where no other has the step, with the mean of the others, which here is 3."""
    rollouts = [*group(0.0, plausibilities=(0.5,) * 4), *group(0.0, plausibilities=(0.5,) * 3)]
    found = subtracted(rollouts, [[10.0, 20.0, 30.0, 40.0], [2.0, 4.0, 7.0]], "step")
    assert found == [[10 - 2, 20 - 4, 30 - 3, 40 - 7], [2 - 10, 4 - 20, 7 - 40]]


def test_an_unknown_baseline_is_refused():
    batch = scored(group(1.0, 0.0))
    with pytest.raises(ValueError, match=r"baseline must be 'none', .* got 'mean': 'leave"):
        subtract_baseline(outcome(batch), batch, baseline="mean")
