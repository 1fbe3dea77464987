"""Delta-belief against plain loops, and what its belief reward is."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.credit.delta_belief import delta_belief
from barl_trl.credit.outcome import grpo

from .. import reference
from .scored import batches, check_against, group, scored


def rollouts_of(*plausibilities):
    """One prompt, all outcomes 0."""
    return scored([r for p in plausibilities for r in group(0.0, plausibilities=p)])


@settings(max_examples=50)
@given(batches())
def test_equals_the_plain_loops(rollouts):
    check_against(reference.delta_belief, delta_belief, rollouts)


@settings(max_examples=30)
@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=5))
def test_without_gains_it_is_grpo(outcomes):
    batch = scored(group(*outcomes, plausibilities=(0.5, 0.3, 0.3)))
    torch.testing.assert_close(delta_belief(batch), grpo(batch))


def test_a_tied_group_without_gains_gets_0():
    values = delta_belief(scored(group(0.5, 0.5, 0.5, plausibilities=(0.5, 0.3, 0.3))))
    assert not values.steps.any()
    assert not values.closing.any()


def test_a_gain_is_a_tenth_of_its_nats_and_a_loss_nothing():
    values = delta_belief(rollouts_of((0.1, 0.1 * math.e, 0.1), (0.5, 0.1, 0.1)))
    deviation = torch.tensor([0.05, -0.05], dtype=torch.float64)
    expected = deviation / (0.1 / math.sqrt(2) + 1e-4)
    torch.testing.assert_close(values.steps[:, 0], expected, rtol=1e-6, atol=0)


def test_the_step_that_answers_gets_no_belief_reward():
    assert not delta_belief(rollouts_of((0.1, 0.9), (0.1, 0.2))).steps.any()


def test_rollouts_that_ended_do_not_count_at_later_steps():
    """At the second step two of three remain; the third would move their mean."""
    longer = [(0.1, 0.1, 0.3, 0.3), (0.1, 0.1, 0.2, 0.2)]
    with_short = delta_belief(rollouts_of(*longer, (0.1, 0.1)))
    alone = delta_belief(rollouts_of(*longer))
    torch.testing.assert_close(with_short.steps[:2, 1:], alone.steps[:, 1:])
    assert alone.steps[0, 1] > 0
