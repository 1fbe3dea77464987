"""The paper's credit and its baseline against plain loops, and where they are the same."""

import math

import pytest
import torch
from hypothesis import given, settings

from barl_trl.credit.barl import barl, hypothesis_outcomes, progress
from barl_trl.posterior import posterior_weighted_values

from .. import reference
from ..reference import Rollout
from .scored import batches, check, check_against, group, rows, scored


@settings(max_examples=30)
@given(batches())
@pytest.mark.parametrize("mode", ["ground_truth", "hypothesis"])
def test_barl_equals_the_plain_loops(mode, rollouts):
    check_against(reference.barl, barl, rollouts, outcome_mode=mode)


@settings(max_examples=30)
@given(batches())
@pytest.mark.parametrize("space", ["probability", "log"])
def test_progress_equals_the_plain_loops(space, rollouts):
    check_against(reference.progress, progress, rollouts, progress_space=space)


@settings(max_examples=30)
@given(batches())
def test_barl_is_the_public_function_under_its_belief(rollouts):
    batch = scored(rollouts)
    steps = posterior_weighted_values(
        batch.answer_logps,
        batch.outcomes,
        beta=1.0,
        state_mask=batch.state_mask,
        hypothesis_mask=batch.hypothesis_mask,
    )
    torch.testing.assert_close(barl(batch).steps, steps)


@settings(max_examples=30)
@given(batches())
def test_with_one_hypothesis_barl_is_progress(rollouts):
    rollouts = [r._replace(logps=[row[:1] for row in r.logps]) for r in rollouts]
    batch = scored(rollouts)
    check(rows(barl(batch), rollouts), rows(progress(batch), rollouts))


def test_progress_is_what_is_left_of_it_and_the_outcome():
    values = progress(scored(group(1.0, plausibilities=(0.1, 0.5, 0.4))))
    torch.testing.assert_close(values.steps, torch.tensor([[1.3, 0.9]], dtype=torch.float64))
    assert values.closing.tolist() == [1.0]


def test_progress_of_logarithms_stays_finite_where_the_truth_is_impossible():
    impossible = Rollout(0, [[-math.inf], [-1.0]])
    values = progress(scored([impossible]), progress_space="log")
    assert values.steps.tolist() == [[99.0]]


def test_a_rollout_is_right_under_the_hypothesis_that_it_answers_and_the_truth_keeps_its_outcome():
    logps = [[-1.0] * 3] * 2
    answers = [Rollout(0, logps, 0.5, member=member) for member in (0, 1, 2, None)]
    assert hypothesis_outcomes(scored(answers)).tolist() == [
        [0.5, 0.0, 0.0],
        [0.5, 1.0, 0.0],
        [0.5, 0.0, 1.0],
        [0.5, 0.0, 0.0],
    ]
