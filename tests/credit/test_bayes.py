"""The return expected under the belief, against plain loops, and its limits by name."""

import dataclasses
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.credit import find_credit
from barl_trl.credit.baselines import subtract_baseline
from barl_trl.credit.bayes import bayes, expected_outcomes
from barl_trl.credit.belief_critic import belief_critic
from barl_trl.credit.outcome import outcome
from barl_trl.posterior import posterior

from .. import reference
from ..reference import Rollout
from .scored import batches, check, check_against, rows, scored


@settings(max_examples=50)
@given(batches(), st.sampled_from([0.0, 0.3, 1.0]))
def test_equals_the_plain_loops(rollouts, information_weight):
    check_against(reference.bayes, bayes, rollouts, information_weight=information_weight)


def left_out_one(values, batch):
    return subtract_baseline(values, batch, baseline="leave_one_out")


@settings(max_examples=30)
@given(batches(all_judged=True))
def test_with_one_hypothesis_it_is_the_outcome_and_so_rloo(rollouts):
    alone = [
        r._replace(logps=[[row[0]] for row in r.logps], member=0 if n % 2 else None, cost=0.0)
        for n, r in enumerate(rollouts)
    ]
    alone = [r._replace(outcome=float(r.member == 0)) for r in alone]
    batch = scored(alone)
    check(
        rows(left_out_one(bayes(batch, information_weight=0.7), batch), alone),
        rows(left_out_one(outcome(batch), batch), alone),
    )


@settings(max_examples=30)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=8), st.integers(0, 3))
def test_without_evidence_the_value_is_the_prior_of_the_own_answer(answers, steps):
    """With votes as the prior that is the share of votes; a belief that stays pays no step."""
    votes = [max(answers.count(i), 0) for i in range(4)]
    prior = torch.tensor([votes], dtype=torch.float64).log().expand(len(answers), -1)
    belief = posterior(
        None,
        beta=1.0,
        log_prior=prior,
        observation_logps=torch.zeros(len(answers), steps, 4).double(),
    )
    flat = [Rollout(0, [[-1.0] * 4] * (steps + 1), member=i) for i in answers]
    batch = dataclasses.replace(scored(flat), belief=belief)
    values = bayes(batch, information_weight=0.4)
    shares = [votes[i] / len(answers) for i in answers]
    check(rows(values, flat), [[share] * (steps + 1) for share in shares])


@settings(max_examples=30)
@given(batches(min_rollouts=2, all_judged=True))
def test_it_is_rloo_averaged_over_the_truths_that_the_belief_leaves(rollouts):
    """So a flat belief gives the weights that RLOO has on average where the truth is drawn anew."""
    one = [r._replace(group=0, logps=rollouts[0].logps) for r in rollouts]
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
    check(rows(left_out_one(bayes(batch), batch), one), expected)


def test_costs_are_added_outside_of_the_expectation():
    rollouts = [Rollout(0, [[0.0, 0.0]] * 2, member=0, cost=-0.25)]
    batch = scored(rollouts)
    assert expected_outcomes(batch).tolist() == [0.25]
    certain = dataclasses.replace(batch, outcomes_under=torch.tensor([[2.0, 1.0]]).double())
    assert expected_outcomes(certain).tolist() == [1.25]  # what a user's function says


def test_information_is_paid_in_units_of_the_largest_entropy():
    rollouts = [Rollout(0, [[0.0] * 4] * 3)]
    belief = torch.tensor([[[0.25] * 4, [0.5, 0.5, 0, 0], [1.0, 0, 0, 0]]]).double()
    batch = dataclasses.replace(scored(rollouts), belief=belief)
    assert bayes(batch, information_weight=0.8).steps.tolist() == [pytest.approx([0.8, 0.4])]


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


def expected(prior, noise):
    """The estimate of `bayes` for a belief with that prior and noise."""
    steps = dict(episodes(noise))
    true = {str(logps): key for key, logps in episodes(NOISE)}

    def estimate(logps, given_answer, truth):
        rollout = Rollout(0, [[0.0] * 4] * 3, member=given_answer)
        belief = posterior(
            None,
            beta=1.0,
            log_prior=torch.tensor([prior]).double().log(),
            observation_logps=torch.tensor([steps[true[str(logps)]]]).double(),
        )
        return bayes(dataclasses.replace(scored([rollout]), belief=belief)).steps[0, 0]

    return estimate


def test_the_gradient_is_unbiased_for_a_calibrated_belief_and_only_for_that():
    """By enumeration: the expected gradient equals the outcome's, with much less variance."""
    torch.manual_seed(0)
    parameters = torch.randn(11, dtype=torch.float64, requires_grad=True)
    of_outcome = gradients(lambda logps, given, truth: float(given == truth), parameters)
    torch.testing.assert_close(gradients(expected(PRIOR, NOISE), parameters), of_outcome)
    wrong_prior = gradients(expected((0.1, 0.2, 0.3, 0.4), NOISE), parameters)
    too_sure = gradients(expected(PRIOR, 0.01), parameters)
    for biased in (wrong_prior, too_sure):
        assert (biased - of_outcome).norm() > 0.1 * of_outcome.norm()


def test_it_is_found_by_its_name_and_needs_no_truth():
    credit = find_credit("bayes")
    assert not credit.needs_truth and credit.hypotheses == "rollouts"


@settings(max_examples=30)
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
