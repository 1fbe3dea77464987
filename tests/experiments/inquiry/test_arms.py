"""The controls beside plain loops, and the settings of every arm."""

import math
from statistics import fmean, stdev

import pytest
import torch
from hypothesis import given, settings

from barl_trl import BARLConfig
from barl_trl.credit.bayes import bayes
from barl_trl.credit.registry import find_credit
from experiments.inquiry import arms
from experiments.inquiry.arms import ARMS

from ...credit.scored import batches, check, rows, scored


def others(r, rollouts):
    return [o for o in rollouts if o.group == r.group]


@pytest.mark.parametrize("name", ARMS)
def test_the_trainer_takes_the_settings_of_every_arm(name, tmp_path):
    args = BARLConfig(tmp_path, use_cpu=True, bf16=False, **ARMS[name].fields)
    assert find_credit(args.credit).needs_truth or not ARMS[name].needs_truth


@given(batches(all_judged=True))
def test_the_last_belief_is_one_value_for_the_whole_rollout(rollouts):
    found = rows(arms.final_belief.function(scored(rollouts)), rollouts)
    check(found, [[r.belief[-1][0]] * len(r.logps) for r in rollouts])


@given(batches(all_judged=True))
def test_progress_without_belief_is_the_outcome(rollouts):
    found = rows(arms.outcome_batch.function(scored(rollouts)), rollouts)
    check(found, [[r.outcome] * len(r.logps) for r in rollouts])


@given(batches(all_judged=True))
def test_delta_belief_without_belief_standardises_the_outcome_at_each_step(rollouts):
    def standardised(r, of):
        error = stdev([o.outcome for o in of]) if len(of) > 1 else 0.0
        return (r.outcome - fmean(o.outcome for o in of)) / (error + 1e-4)

    expected = []
    for r in rollouts:
        group = others(r, rollouts)
        steps = [
            standardised(r, [o for o in group if len(o.logps) > t + 1])
            for t in range(len(r.logps) - 1)
        ]
        expected.append([*steps, standardised(r, group)])
    found = rows(arms.delta_outcome.function(scored(rollouts)), rollouts)
    check(found, expected, tolerance=1e-6)


@given(batches(all_judged=True))
def test_information_alone_is_the_bayes_return_less_its_outcome(rollouts):
    given_rollouts = scored(rollouts)
    both, none = (bayes(given_rollouts, information_weight=c) for c in (1.0, 0.0))
    found = arms.information.function(given_rollouts)
    torch.testing.assert_close(found.steps, both.steps - none.steps)
    assert not found.closing.any()


@settings(deadline=None)
@given(batches(all_judged=True, min_rollouts=2))
def test_rescaled_steps_have_the_sign_of_plain_rl_and_the_size_of_the_bayes_return(rollouts):
    given_rollouts = scored(rollouts)
    found = rows(arms.rescaled.function(given_rollouts), rollouts)
    weights = rows(bayes(given_rollouts, information_weight=1.0), rollouts)
    for t in range(max(len(r.logps) for r in rollouts) - 1):
        have = [n for n, r in enumerate(rollouts) if len(r.logps) > t + 1]

        def centred(values, n, have=have):
            group = [m for m in have if rollouts[m].group == rollouts[n].group]
            return values[n] - fmean(values[m] for m in group)

        outcomes = {n: rollouts[n].outcome for n in have}
        of_bayes = {n: weights[n][t] for n in have}
        relative = {n: centred(outcomes, n) for n in have}
        sizes = [
            math.sqrt(fmean(centred(values, n) ** 2 for n in have))
            for values in (of_bayes, outcomes)
        ]
        for n in have:
            expected = relative[n] * sizes[0] / max(sizes[1], 1e-4)
            assert found[n][t] == pytest.approx(expected, rel=1e-6, abs=1e-9)
