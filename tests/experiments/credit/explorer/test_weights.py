"""The explorer's weights beside those of the package's functions on the same numbers, in loops."""

import math

import numpy as np
import pytest
import torch

from barl_trl.credit.whitening import whiten
from barl_trl.posterior import posterior_weighted_values
from barl_trl.steps import spread_over_tokens
from experiments.credit.arms import ARMS, CreditArm
from experiments.credit.explorer.simulation import INITIAL_PARAMETERS, WORLDS, simulate
from experiments.credit.explorer.weights import gradient, scored_rollouts, step_weights

from .test_simulation import LATER, exact_accuracy


def drawn(name, parameters=LATER, prompts=8, group_size=8, seed=0):
    rng = np.random.default_rng(seed)
    return simulate(parameters, WORLDS[name], prompts, group_size, rng)


@pytest.fixture(scope="module", params=WORLDS)
def rollouts(request):
    return drawn(request.param)


def listed(rollouts, log_likelihood, *, only_truth=False):
    """Log-likelihoods and masks as the trainer has them: each group's answers as they come."""
    num_states = rollouts.guesses.shape[1]
    sets = {}
    for group, answer in zip(rollouts.groups, rollouts.answers, strict=True):
        known = sets.setdefault(group, [0])
        if answer >= 0 and answer not in known and not only_truth:
            known.append(int(answer))
    width = max(map(len, sets.values()))
    logps = torch.zeros(len(rollouts.answers), num_states, width, dtype=torch.float64)
    state_mask = torch.zeros(len(rollouts.answers), num_states, dtype=torch.bool)
    hypothesis_mask = torch.zeros(len(rollouts.answers), width, dtype=torch.bool)
    for b, (group, tokens) in enumerate(zip(rollouts.groups, rollouts.step_tokens, strict=True)):
        hypothesis_mask[b, : len(sets[group])] = True
        for t in range((tokens > 0).sum() + 1):
            state_mask[b, t] = True
            for h, candidate in enumerate(sets[group]):
                logps[b, t, h] = log_likelihood(rollouts.guesses[b, t, candidate])
    return logps, state_mask, hypothesis_mask


def whitened(steps, closing, rollouts, *, in_groups=False):
    """Spread over tokens, whitened, and read at each step's last token."""
    ends = [np.cumsum(tokens[tokens > 0]).tolist() for tokens in rollouts.step_tokens]
    lengths = torch.tensor([e[-1] + (a >= 0) for e, a in zip(ends, rollouts.answers, strict=True)])
    num_tokens = int(lengths.max())
    tokens = spread_over_tokens(steps, ends, closing, num_tokens=num_tokens)
    mask = torch.arange(num_tokens) < lengths[:, None]
    groups = torch.from_numpy(rollouts.groups) * in_groups
    tokens = whiten(
        tokens, mask, groups, num_groups=int(groups.max()) + 1, sum_over_processes=lambda x: x
    )
    weights = torch.zeros_like(steps)
    for row, of_tokens, own in zip(weights, tokens, ends, strict=True):
        row[: len(own)] = of_tokens[[end - 1 for end in own]]
    return weights


@pytest.mark.parametrize(
    ("arm", "log_likelihood"),
    [
        (CreditArm("barl"), lambda q: math.log(q) / 2),
        (CreditArm("barl", settings={"answer_likelihood": "sum"}), math.log),
        (
            CreditArm("barl", settings={"answer_likelihood": "token_mean"}),
            lambda q: math.log((q + 1) / 2),
        ),
        (CreditArm("barl", consistency_beta=math.inf), lambda q: math.log(q) / 2),
        (CreditArm("progress"), lambda q: math.log(q) / 2),
        (CreditArm("barl", settings={"value_normalization": "group"}), lambda q: math.log(q) / 2),
    ],
)
def test_weights_are_the_papers_equations(rollouts, arm, log_likelihood):
    is_progress, outcomes = arm.credit == "progress", torch.from_numpy(rollouts.outcomes)
    logps, state_mask, hypothesis_mask = listed(rollouts, log_likelihood, only_truth=is_progress)
    values = posterior_weighted_values(
        logps,
        outcomes,
        beta=arm.consistency_beta,
        state_mask=state_mask,
        hypothesis_mask=hypothesis_mask,
    )
    expected = whitened(values, outcomes, rollouts, in_groups="value_normalization" in arm.settings)
    torch.testing.assert_close(step_weights(rollouts, arm), expected)


def test_plain_weights_are_those_of_the_outcomes(rollouts):
    outcomes = torch.from_numpy(rollouts.outcomes).reshape(-1, 8)
    centered = outcomes - outcomes.mean(dim=1, keepdim=True)
    exists = torch.from_numpy(rollouts.step_tokens > 0)
    for name, advantages in {
        "grpo": centered / (outcomes.std(dim=1, keepdim=True) + 1e-4),
        "rloo": centered * 8 / 7,
    }.items():
        expected = advantages.reshape(-1, 1) * exists
        torch.testing.assert_close(step_weights(rollouts, ARMS[name]), expected)


def test_scored_rollouts_know_who_was_cut_off_and_what_was_answered():
    rollouts = drawn("cut_off", prompts=30, group_size=2)
    assert (
        (rollouts.outcomes.reshape(-1, 2) == 0).all(axis=1).any()
    )  # the truth is scored there too
    scored = scored_rollouts(rollouts, ARMS["barl"])
    assert scored.is_cut_off.any()
    assert scored.members == [a if a >= 0 else None for a in rollouts.answers.tolist()]
    for row, member in zip(scored.hypothesis_mask, scored.members, strict=True):
        assert row[0] and (member is None or row[member])
    assert scored_rollouts(rollouts, ARMS["grpo"]).answer_logps.shape[2] == 0
    truth_alone = scored_rollouts(rollouts, ARMS["progress"])
    assert truth_alone.answer_logps.shape[2] == 1
    assert set(truth_alone.members) == {0, None}


@pytest.mark.parametrize(
    ("name", "parameters"),
    [(name, (INITIAL_PARAMETERS, LATER)[n % 2]) for n, name in enumerate(WORLDS)],
    ids=WORLDS,
)
def test_rloo_gradient_is_the_derivative_of_the_exact_accuracy(name, parameters):
    condition, step = WORLDS[name], 1e-4
    derivative = [
        (exact_accuracy(parameters + e, condition) - exact_accuracy(parameters - e, condition))
        / (2 * step)
        for e in step * np.eye(6)
    ]
    found = []
    for seed in range(8):
        rollouts = drawn(name, parameters, prompts=300, seed=seed)
        per_rollout = rollouts.num_tokens.sum() / len(rollouts.answers)
        found.append(gradient(rollouts, ARMS["rloo"]) * per_rollout)
    # 19,200 rollouts; the error is estimated from eight means, hence the five
    error = np.std(found, axis=0, ddof=1) / math.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - derivative) < 5 * error).all()
    assert np.linalg.norm(error) < 0.2 * np.linalg.norm(derivative)
