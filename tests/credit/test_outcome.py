"""The outcome alone: RLOO's and GRPO's advantages."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.credit.outcome import grpo, outcome, standardized_in_group

from .. import reference
from .scored import OUTCOMES, batches, check_against, group, scored


@settings(max_examples=30)
@given(batches())
@pytest.mark.parametrize("name", ["outcome", "grpo"])
def test_equals_the_plain_loops(name, rollouts):
    check_against(getattr(reference, name), {"outcome": outcome, "grpo": grpo}[name], rollouts)


@settings(max_examples=30)
@given(st.lists(st.lists(OUTCOMES, min_size=4, max_size=4), min_size=1, max_size=3))
def test_grpo_is_the_advantage_of_trl(outcomes):
    rollouts = [r for g, prompt in enumerate(outcomes) for r in group(*prompt, number=g)]
    r = torch.tensor(outcomes, dtype=torch.float64)
    advantages = (r - r.mean(dim=1, keepdim=True)) / (r.std(dim=1, keepdim=True) + 1e-4)
    values = grpo(scored(rollouts))
    torch.testing.assert_close(values.closing, advantages.flatten())
    torch.testing.assert_close(values.steps[:, 0], advantages.flatten())


def test_a_tied_group_gets_0():
    assert not grpo(scored(group(0.5, 0.5, 0.5))).steps.any()


def test_a_single_rollout_gets_0():
    assert not grpo(scored(group(1.0))).steps.any()


def test_rewards_that_do_not_count_get_0_and_move_no_others():
    rewards, groups = torch.tensor([1.0, 0.0, 77.0]), torch.zeros(3, dtype=torch.long)
    found = standardized_in_group(rewards, groups, torch.tensor([True, True, False]))
    expected = torch.tensor([0.5, -0.5, 0.0]) / (0.5**0.5 + 1e-4)
    torch.testing.assert_close(found, expected)
