"""All credits: each against plain loops, what holds for all of them, and their limits by name."""

import dataclasses
import itertools
import math
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.credit import CREDITS, find_credit
from barl_trl.credit.barl import barl, hypothesis_outcomes, progress
from barl_trl.credit.baselines import subtract_baseline
from barl_trl.credit.bayes import bayes, expected_outcomes
from barl_trl.credit.belief_critic import belief_critic, fitted_critic
from barl_trl.credit.delta_belief import delta_belief
from barl_trl.credit.gae import gae, gae_posterior
from barl_trl.credit.information_gain import information_gain
from barl_trl.credit.likelihood import likelihood, rlpr
from barl_trl.credit.outcome import grpo, outcome
from barl_trl.posterior import StepValues, posterior

from .. import reference
from ..reference import Rollout
from .scored import VARIANTS, batches, check, check_against, group, likelihoods, rows, scored

EVERY_CREDIT = pytest.mark.parametrize(
    ("name", "given_settings"),
    VARIANTS,
    ids=["-".join([name, *map(str, given.values())]) for name, given in VARIANTS],
)
"""All credits, and their settings that change a branch."""

TWINS = [variant for variant in VARIANTS if "belief" not in variant[1]]
UNBIASED = {"gae_lambda": 1.0, "bootstrap_cut_off": False}


def of(*plausibilities):
    """Rollouts of one prompt, all with the outcome 0."""
    return [r for p in plausibilities for r in group(0.0, plausibilities=p)]


def left_out_one(values, batch):
    return subtract_baseline(values, batch, baseline="leave_one_out")


@settings(max_examples=25)
@given(batches())
@pytest.mark.parametrize(("name", "given_settings"), TWINS)
def test_equals_the_plain_loops(name, given_settings, rollouts):
    twin = {"rloo": "outcome"}.get(name, name)
    if name == "belief_critic":
        given_settings = {"gae_lambda": 0.7, "bootstrap_cut_off": True} | given_settings
    check_against(getattr(reference, twin), CREDITS[name].function, rollouts, **given_settings)


# What holds for all of them


def credited(name, given_settings, batch, rollouts):
    """Values behind the credit's own baseline."""
    credit = find_credit(name)
    values = credit.function(batch, **given_settings)
    found = subtract_baseline(values, batch, baseline=credit.credit_baseline)
    return rows(found, rollouts)


@settings(max_examples=5)
@given(batches(), st.data())
@EVERY_CREDIT
def test_rollouts_that_are_not_judged_get_0_and_move_no_others(
    name, given_settings, rollouts, data
):
    def something_else(r):
        logps = data.draw(likelihoods(len(r.logps[0])))
        told = {"turn_rewards": (7.0,) * (len(logps) - 1), "states": (1,) * (len(logps) - 1)}
        return r._replace(logps=logps, outcome=5.0, is_cut_off=not r.is_cut_off, member=0, **told)

    others = [r if r.is_judged else something_else(r) for r in rollouts]
    before = credited(name, given_settings, scored(rollouts), rollouts)
    after = credited(name, given_settings, scored(others), others)
    check(after, before, [r.is_judged for r in rollouts], 1e-7)
    assert not any(any(v) for r, v in zip(rollouts, after, strict=True) if not r.is_judged)


@settings(max_examples=5)
@given(batches(), st.sampled_from([math.nan, -math.inf, -3.3]))
@EVERY_CREDIT
def test_what_stands_in_padding_is_not_looked_at(name, given_settings, rollouts, padding):
    before = credited(name, given_settings, scored(rollouts), rollouts)
    after = credited(name, given_settings, scored(rollouts, padding=padding), rollouts)
    check(after, before)


@settings(max_examples=5)
@given(batches(), st.randoms())
@EVERY_CREDIT
def test_the_order_of_rollouts_does_not_matter(name, given_settings, rollouts, random):
    order = list(range(len(rollouts)))
    random.shuffle(order)
    shuffled = [rollouts[i] for i in order]
    before = credited(name, given_settings, scored(rollouts), rollouts)
    after = credited(name, given_settings, scored(shuffled), shuffled)
    check(after, [before[i] for i in order], tolerance=1e-7)


@settings(max_examples=5)
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


@settings(max_examples=5)
@given(batches())
@pytest.mark.parametrize("name", CREDITS)
def test_a_credit_sees_no_answers_but_those_that_it_says_it_needs(name, rollouts):
    credit, batch = CREDITS[name], scored(rollouts)
    number = {"rollouts": None, "truth": 1, "none": 0}[credit.hypotheses]
    fewer = dataclasses.replace(
        batch,
        answer_logps=batch.answer_logps[..., :number],
        hypothesis_mask=batch.hypothesis_mask[:, :number],
        belief=batch.belief[..., :number],
    )
    check(rows(credit.function(fewer), rollouts), rows(credit.function(batch), rollouts))


@pytest.mark.parametrize("estimator", [grpo, rlpr, delta_belief, information_gain])
def test_a_tied_group_and_a_single_rollout_get_0(estimator):
    """Also where the mean of float32 is rounded."""
    for outcomes in ([0.7] * 3, [1.0]):
        rollouts = group(*outcomes, plausibilities=(0.2, 0.2))
        values = estimator(scored(rollouts, dtype=torch.float32))
        assert values.steps.abs().max() < 2e-3 and values.closing.abs().max() < 2e-3


# The paper, and its baseline that knows the truth alone


@settings(max_examples=15)
@given(batches())
def test_with_one_hypothesis_barl_is_progress(rollouts):
    rollouts = [r._replace(logps=[row[:1] for row in r.logps]) for r in rollouts]
    batch = scored(rollouts)
    check(rows(barl(batch), rollouts), rows(progress(batch), rollouts))


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


# Baselines


@pytest.mark.parametrize("size", [2, 3])
def test_others_values_at_the_same_step_are_no_bias_where_the_policy_decides_when_to_stop(size):
    """By enumeration of all groups of a game of up to two moves, for any values of steps."""
    torch.manual_seed(0)
    logits = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)  # history; a, b or stop
    plays = [[2], *([first, second] for first in (0, 1) for second in (0, 1, 2))]
    scores, chances = [], []
    for play in plays:
        rows_seen = [0, 1 + play[0]][: len(play)]
        chosen = [logits[row].log_softmax(0)[act] for row, act in zip(rows_seen, play, strict=True)]
        grads = [torch.autograd.grad(one, logits, retain_graph=True)[0] for one in chosen]
        scores.append(torch.stack([*grads, torch.zeros(3, 3).double()][:2]))
        chances.append(sum(chosen).exp().item())
    groups = [*itertools.product(range(len(plays)), repeat=size)]
    drawn = [n for members in groups for n in members]
    batch = scored([Rollout(i // size, [[0.0]] * (len(plays[n]) + 1)) for i, n in enumerate(drawn)])
    values = StepValues(
        torch.randn(len(plays), 2).double()[drawn], torch.zeros(len(drawn)).double()
    )
    likely = [math.prod(chances[n] for n in members) / size for members in groups]
    likely = torch.tensor(likely, dtype=torch.float64)

    def expected_gradient(baseline):
        left = subtract_baseline(values, batch, baseline=baseline).steps
        each = (left[..., None, None] * torch.stack(scores)[drawn]).sum(dim=1)
        return torch.einsum("g,gnij->ij", likely, each.view(-1, size, 3, 3))

    plain = expected_gradient("none")
    for baseline in ("step", "leave_one_out"):
        torch.testing.assert_close(expected_gradient(baseline), plain, atol=1e-12, rtol=0)
    assert (expected_gradient("group") - plain).abs().max() > 0.01  # it has the own value


# Generalised advantage estimation


@settings(max_examples=15)
@given(batches())
@pytest.mark.parametrize("estimator", [gae, gae_posterior])
def test_lambda_1_is_the_outcome_less_the_critic_and_lambda_0_its_changes(estimator, rollouts):
    critics = [r.plausibilities if estimator is gae else [w[0] for w in r.belief] for r in rollouts]
    found = rows(estimator(scored(rollouts), gae_lambda=1.0), rollouts)
    check(found, [[r.outcome - v for v in of] for r, of in zip(rollouts, critics, strict=True)])
    found = rows(estimator(scored(rollouts), gae_lambda=0.0), rollouts)
    values = [[*of, r.outcome] for r, of in zip(rollouts, critics, strict=True)]
    check(found, [[v[t + 1] - v[t] for t in range(len(v) - 1)] for v in values])


@settings(max_examples=15)
@given(batches(min_rollouts=2, all_judged=True), st.floats(0.01, 1))
@pytest.mark.parametrize("estimator", [gae, gae_posterior, belief_critic])
def test_with_a_flat_belief_and_lambda_1_behind_leave_one_out_it_is_rloo(estimator, rollouts, p):
    rollouts = [r._replace(logps=[[math.log(p)] for _ in r.logps]) for r in rollouts]
    batch, options = scored(rollouts), UNBIASED if estimator is belief_critic else {}
    found = left_out_one(estimator(batch, **options), batch)
    check(rows(found, rollouts), rows(left_out_one(outcome(batch), batch), rollouts))


# The critic that is fitted to the belief


def critic_of(rollouts):
    batch = scored(rollouts)
    returns = batch.outcomes[:, None].expand(batch.state_mask.shape)
    return fitted_critic(batch.truth_plausibility[..., None], returns, batch)


@settings(max_examples=15)
@given(batches(min_groups=2), st.data())
def test_no_prompt_sees_its_own_outcomes(rollouts, data):
    chosen = data.draw(st.integers(0, len(rollouts) - 1))
    changed = list(rollouts)
    changed[chosen] = rollouts[chosen]._replace(outcome=7.0, is_judged=True)
    own = scored(rollouts).groups == rollouts[chosen].group
    torch.testing.assert_close(critic_of(rollouts)[own], critic_of(changed)[own])


def test_a_belief_that_tells_outcomes_apart_is_believed():
    """Over many prompts the truth is certain where the outcome is 1, and impossible where 0."""
    rollouts = [
        r
        for number in range(50)
        for v in (0.0, 1.0)
        for r in group(v, plausibilities=(max(v, 1e-9),) * 2, number=number)
    ]
    expected = torch.tensor([0.0, 1.0] * 50)[:, None].expand(-1, 2)
    found = critic_of(rollouts)
    torch.testing.assert_close(found, expected.to(found.dtype), atol=0.02, rtol=0)


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


@settings(max_examples=15)
@given(batches(min_groups=2, all_judged=True), st.sampled_from([0.0, 1.0]))
def test_the_critic_takes_the_tasks_belief(rollouts, gae_lambda):
    """Its features are belief in the truth, largest belief and entropy; its target is expected."""
    batch = scored(rollouts)
    found = rows(
        belief_critic(batch, gae_lambda=gae_lambda, bootstrap_cut_off=False, belief="task"),
        rollouts,
    )
    for r, row in zip(rollouts, found, strict=True):
        others = [o for o in rollouts if o.group != r.group]

        def features(belief):
            return [belief[0], max(belief), reference.entropy(belief)]

        x = torch.tensor([features(b) for o in others for b in o.belief]).double()
        v = torch.tensor([reference.expected_outcome(o) for o in others for _ in o.belief]).double()
        # ridge regression as ordinary regression with one more row for each slope
        centred = torch.cat([x - x.mean(0), torch.eye(3).double()])
        target = torch.cat([v - v.mean(), torch.zeros(3).double()])
        slopes = torch.linalg.lstsq(centred, target[:, None]).solution[:, 0]
        critic = [
            (v.mean() + (torch.tensor(features(b)).double() - x.mean(0)) @ slopes).item()
            for b in r.belief
        ]
        want = reference.advantages(critic, reference.expected_outcome(r), gae_lambda)
        assert row == pytest.approx(want, abs=1e-6)


# The return that is expected under the belief


@settings(max_examples=15)
@given(batches(min_rollouts=2, all_judged=True))
def test_it_is_rloo_averaged_over_the_truths_that_the_belief_leaves(rollouts):
    """So a flat belief gives the weights that RLOO has on average where the truth is drawn anew."""
    first = rollouts[0]
    one = [
        r._replace(group=0, logps=first.logps, states=first.states, turn_rewards=())
        for r in rollouts
    ]
    size = len(one[0].logps[0])
    one = [r._replace(member=r.member if r.member is None else r.member % size) for r in one]
    batch = scored(one)
    expected = [[0.0] * len(one[0].logps) for _ in one]
    for truth, belief in enumerate(one[0].belief[-1]):
        if not belief:
            continue
        judged = [r._replace(outcome=float(r.member == truth) + r.cost) for r in one]
        found = rows(left_out_one(outcome(scored(judged)), batch), one)
        for row, values in zip(expected, found, strict=True):
            for t, value in enumerate(values):
                row[t] += belief * value
    found = bayes(batch, information_weight=0.0)
    check(rows(left_out_one(found, batch), one), expected)


def test_costs_are_added_outside_of_the_expectation():
    rollouts = [Rollout(0, [[0.0, 0.0]] * 2, member=0, cost=-0.25)]
    batch = scored(rollouts)
    assert expected_outcomes(batch).tolist() == [0.25]
    certain = dataclasses.replace(batch, outcomes_under=torch.tensor([[2.0, 1.0]]).double())
    assert expected_outcomes(certain).tolist() == [1.25]  # what a user's function says


# A small game: the truth is one of four; a question splits them, its answer is flipped with the
# probability NOISE; a second question may follow; then an answer is given.
NOISE = 0.2
QUESTIONS = ((0, 1), (0, 2), (0, 3))
PRIOR = (0.4, 0.3, 0.2, 0.1)


def episodes(noise):
    """All histories of two questions with the probability of each answer under each truth."""
    for first, second in itertools.product(range(3), repeat=2):
        for replies in itertools.product((True, False), repeat=2):
            logps = [
                [
                    math.log(1 - noise if (truth in QUESTIONS[asked]) == reply else noise)
                    for truth in range(4)
                ]
                for asked, reply in zip((first, second), replies, strict=True)
            ]
            yield (first, *replies, second), logps


def gradients(estimate, parameters):
    """Exact expectation, over truths, replies and the policy, of weights times scores.

    The policy asks by logits, and answers by logits that depend on what it heard last.
    """
    ask, answer = parameters[:3], parameters[3:].reshape(2, 4)
    total = torch.zeros_like(parameters)
    for (first, _, last, second), logps in episodes(NOISE):
        likelihood = torch.tensor(logps).double().sum(dim=0).exp()
        for given_answer in range(4):
            chosen = ask.log_softmax(0)[first] + ask.log_softmax(0)[second]
            chosen = chosen + answer.log_softmax(1)[int(last), given_answer]
            (score,) = torch.autograd.grad(chosen, parameters)
            for truth, prior in enumerate(PRIOR):
                probability = chosen.detach().exp() * prior * likelihood[truth]
                total += probability * estimate(logps, given_answer, truth) * score
    return total


def expected(prior, noise, c=0.0):
    """The estimate of `bayes` for a belief with that prior and noise, and the weight c."""
    steps = dict(episodes(noise))
    true = {str(logps): key for key, logps in episodes(NOISE)}

    @cache
    def of_replies(key, given_answer):
        rollout = Rollout(0, [[0.0] * 4] * 3, member=given_answer)
        belief = posterior(
            None,
            beta=1.0,
            log_prior=torch.tensor([prior]).double().log(),
            observation_logps=torch.tensor([steps[key]]).double(),
        )
        batch = dataclasses.replace(scored([rollout]), belief=belief)
        return bayes(batch, information_weight=c).steps[0, 0]

    return lambda logps, given_answer, truth: of_replies(true[str(logps)], given_answer)


def test_the_gradient_is_unbiased_for_a_calibrated_belief_and_only_for_that():
    """By enumeration: the expected gradient equals the outcome's, with much less variance."""
    torch.manual_seed(0)
    parameters = torch.randn(11, dtype=torch.float64, requires_grad=True)
    of_outcome = gradients(lambda logps, given, truth: float(given == truth), parameters)
    torch.testing.assert_close(gradients(expected(PRIOR, NOISE), parameters), of_outcome)
    wrong_prior = gradients(expected((0.1, 0.2, 0.3, 0.4), NOISE), parameters)
    too_sure = gradients(expected(PRIOR, 0.01), parameters)
    for biased in (wrong_prior, too_sure, gradients(expected(PRIOR, NOISE, 1.0), parameters)):
        assert (biased - of_outcome).norm() > 0.1 * of_outcome.norm()


# Gains and likelihoods of the truth


@settings(max_examples=15)
@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=5))
def test_without_gains_delta_belief_is_grpo(outcomes):
    batch = scored(group(*outcomes, plausibilities=(0.5, 0.3, 0.3)))
    torch.testing.assert_close(delta_belief(batch), grpo(batch))


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


def test_likelihood_stays_finite_where_the_truth_is_impossible():
    assert likelihood(scored([Rollout(0, [[-math.inf]])])).closing.tolist() == [-100.0]
