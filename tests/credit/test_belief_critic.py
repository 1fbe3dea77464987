"""The critic that is fitted to the belief: cross-fitting, and what it is without information."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.credit import find_credit
from barl_trl.credit.baselines import subtract_baseline
from barl_trl.credit.belief_critic import belief_critic, fitted_critic

from .. import reference
from .scored import batches, check, check_against, group, rows, scored

UNBIASED = {"gae_lambda": 1.0, "bootstrap_cut_off": False}


def flat(rollouts):
    """The belief says nothing: the truth is as plausible at every state."""
    return [r._replace(logps=[[math.log(0.3)] for _ in r.logps]) for r in rollouts]


def critic_of(rollouts):
    batch = scored(rollouts)
    return fitted_critic(batch.truth_plausibility[..., None], batch.outcomes, batch)


@settings(max_examples=30)
@given(batches(), st.sampled_from([0.0, 0.5, 1.0]), st.booleans())
def test_equals_the_plain_loops(rollouts, gae_lambda, bootstrap_cut_off):
    given_settings = {"gae_lambda": gae_lambda, "bootstrap_cut_off": bootstrap_cut_off}
    check_against(reference.belief_critic, belief_critic, rollouts, **given_settings)


@settings(max_examples=30)
@given(batches())
def test_the_critic_equals_the_plain_loops(rollouts):
    critic = critic_of(rollouts)
    for row, want in zip(critic.tolist(), reference.fitted_critic(rollouts), strict=True):
        padding = [0.0] * (len(row) - len(want))
        assert row == pytest.approx([*want, *padding], abs=1e-9)


@settings(max_examples=30)
@given(batches(min_groups=2), st.data())
def test_no_prompt_sees_its_own_outcomes(rollouts, data):
    chosen = data.draw(st.integers(0, len(rollouts) - 1))
    changed = list(rollouts)
    changed[chosen] = rollouts[chosen]._replace(outcome=7.0, is_judged=True)
    own = scored(rollouts).groups == rollouts[chosen].group
    torch.testing.assert_close(critic_of(rollouts)[own], critic_of(changed)[own])


def test_the_other_prompts_see_them():
    others = group(1.0, 0.0, number=1)
    before = critic_of([*group(1.0, 0.0, 0.0), *others])
    after = critic_of([*group(1.0, 0.0, 1.0), *others])
    torch.testing.assert_close(after[:3], before[:3])
    assert (after[3:] > before[3:]).all()


@settings(max_examples=30)
@given(batches(min_groups=2))
def test_without_information_it_is_the_outcome_less_the_mean_of_the_other_prompts(rollouts):
    rollouts = flat(rollouts)
    expected = []
    for r in rollouts:
        others = [o for o in rollouts if o.group != r.group and o.is_judged]
        each_state = [o.outcome for o in others for _ in o.logps]
        expected.append([r.outcome - reference.mean(each_state)] * len(r.logps))
    check(rows(belief_critic(scored(rollouts), **UNBIASED), rollouts), expected)


@settings(max_examples=30)
@given(batches(min_rollouts=2, all_judged=True))
def test_without_information_it_is_rloo_behind_leave_one_out(rollouts):
    rollouts = flat(rollouts)
    batch, rloo = scored(rollouts), find_credit("rloo")
    found = subtract_baseline(belief_critic(batch, **UNBIASED), batch, baseline="leave_one_out")
    plain = subtract_baseline(rloo.function(batch), batch, baseline=rloo.credit_baseline)
    check(rows(found, rollouts), rows(plain, rollouts))


def test_with_one_prompt_there_is_nothing_to_fit():
    assert not critic_of(group(1.0, 0.0)).any()


def test_a_belief_that_tells_outcomes_apart_is_believed():
    """Over many prompts the truth is certain where the outcome is 1, and impossible where 0."""
    rollouts = [
        r
        for number in range(50)
        for v in (0.0, 1.0)
        for r in group(v, plausibilities=(max(v, 1e-9),) * 2, number=number)
    ]
    critic = critic_of(rollouts)
    torch.testing.assert_close(
        critic[0::2], torch.zeros(50, 2, dtype=critic.dtype), atol=0.02, rtol=0
    )
    torch.testing.assert_close(
        critic[1::2], torch.ones(50, 2, dtype=critic.dtype), atol=0.02, rtol=0
    )


def test_rollouts_that_were_cut_off_end_with_the_critics_value():
    cut_off = group(0.0, plausibilities=(0.1, 0.6, 0.4))[0]._replace(is_cut_off=True)
    rollouts = [cut_off, *group(1.0, 1.0, number=1), *group(0.0, number=2)]
    critic = critic_of(rollouts)[0]
    values = belief_critic(scored(rollouts), gae_lambda=1.0, bootstrap_cut_off=True)
    torch.testing.assert_close(values.steps[0], critic[2] - critic[:2])
    assert values.closing[0] == 0
    plain = belief_critic(scored(rollouts), **UNBIASED)
    assert plain.closing[0] == -critic[2] != 0
    torch.testing.assert_close(values.steps[1:], plain.steps[1:])
