"""Information gain against plain loops, and by hand."""

import pytest
import torch
from hypothesis import given, settings

from barl_trl.credit.information_gain import information_gain

from .. import reference
from .scored import batches, check, check_against, group, rows, scored


@settings(max_examples=50)
@given(batches())
@pytest.mark.parametrize("space", ["probability", "log"])
def test_equals_the_plain_loops(space, rollouts):
    check_against(reference.information_gain, information_gain, rollouts, progress_space=space)


def test_all_rewards_of_the_group_are_standardised_together_and_summed_from_a_step_on():
    """Rewards 0.5 and 0, and 0.5 and 1: mean 0.5, standard deviation that of all four."""
    rollouts = group(0.0, 1.0, plausibilities=(0.25, 0.75, 0.5))
    values = information_gain(scored(rollouts))
    std = (0.125 + 1e-8) ** 0.5 + 1e-6
    expected = torch.tensor([[-0.5, -0.5], [0.5, 0.5]], dtype=torch.float64) / std
    torch.testing.assert_close(values.steps, expected)
    torch.testing.assert_close(values.closing, expected[:, 1])


def test_the_step_that_answers_gets_the_outcome_and_not_its_gain():
    before, after = (
        information_gain(scored(group(0.0, 1.0, plausibilities=(0.2, 0.5, last))))
        for last in (0.1, 0.9)
    )
    assert torch.equal(before.steps, after.steps)


def test_rewards_that_tie_get_0_also_where_their_mean_is_rounded():
    rollouts = group(*[0.7] * 3, plausibilities=(0.2, 0.2))
    values = information_gain(scored(rollouts, dtype=torch.float32))
    assert values.steps.abs().max() < 2e-3
    assert values.closing.abs().max() < 2e-3


def test_rewards_that_nearly_tie_keep_their_scale():
    """The mean of squares less the square of the mean is 0 here in float32."""
    rollouts = group(*[1 + 1e-4 * i for i in range(8)])
    found = rows(information_gain(scored(rollouts, dtype=torch.float32)), rollouts)
    check(found, reference.information_gain(rollouts), tolerance=1e-3)


def test_a_rollout_without_steps_has_its_outcome():
    """Else nothing would discourage a policy from ending at once, where the others are right."""
    rollouts = [*group(0.0, plausibilities=(0.5,)), *group(1.0, 1.0, plausibilities=(0.5, 0.5))]
    values = information_gain(scored(rollouts))
    std = (2 / 9 + 1e-8) ** 0.5 + 1e-6
    expected = torch.tensor([-2 / 3, 1 / 3, 1 / 3], dtype=torch.float64) / std
    torch.testing.assert_close(values.closing, expected)
    assert values.steps.shape == (3, 1)
    assert values.steps[0, 0] == 0
