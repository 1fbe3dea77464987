"""Rollouts as plain lists (`reference.Rollout`) -> `ScoredRollouts`, and any such rollouts."""

import math

import pytest
import torch
from hypothesis import strategies as st

from barl_trl.credit import CREDITS
from barl_trl.credit.rollouts import ScoredRollouts

from ..reference import Rollout

LOGPS = st.floats(-30, 0) | st.just(-math.inf)
OUTCOMES = st.sampled_from([0.0, 1.0]) | st.floats(-1, 2)

VARIANTS = [(name, {}) for name in CREDITS] + [
    *[("barl", {"outcome_mode": "hypothesis"}), ("progress", {"progress_space": "log"})],
    *[("gae", {"gae_lambda": 0.7}), ("gae_posterior", {"gae_lambda": 0.0})],
    ("belief_critic", {"gae_lambda": 0.3, "bootstrap_cut_off": True}),
    *[("belief_critic", {"belief": "task"}), ("bayes", {"information_weight": 0.3})],
    *[("turns", {"turn_gamma": 0.9}), ("turns", {"turn_return": "own"})],
    *[("turns", {"turn_return": "gae"} | more) for more in ({}, {"turn_gamma": 0.5})],
    ("turns", {"turn_return": "gae", "turn_gamma": 0.5, "gae_lambda": 0.3}),
    ("information_gain", {"progress_space": "log"}),
    ("information_gain", {"gain_normalization": "separate"}),
]
"""All credits, and their settings that change a branch."""


def scored(rollouts, *, padding=0.0, dtype=torch.float64):
    """Pad rollouts of different sizes; `padding` stands where nothing exists."""
    states = max(len(r.logps) for r in rollouts)
    hypotheses = max(len(r.logps[0]) for r in rollouts)
    logps = torch.full((len(rollouts), states, hypotheses), padding, dtype=dtype)
    belief = torch.zeros_like(logps)
    state_mask = torch.zeros(len(rollouts), states, dtype=torch.bool)
    rewards = torch.full((len(rollouts), max(1, states - 1)), padding, dtype=dtype)
    numbers = torch.zeros(len(rollouts), max(1, states - 1), dtype=torch.long)
    hypothesis_mask = torch.zeros(len(rollouts), hypotheses, dtype=torch.bool)
    for b, r in enumerate(rollouts):
        corner = (b, slice(len(r.logps)), slice(len(r.logps[0])))
        logps[corner] = torch.tensor(r.logps, dtype=dtype)
        belief[corner] = torch.tensor(r.belief, dtype=dtype)
        state_mask[corner[:2]] = True
        hypothesis_mask[b, corner[2]] = True
        rewards[b, : len(r.turn_rewards)] = torch.tensor(r.turn_rewards, dtype=dtype)
        numbers[b, : len(r.states)] = torch.tensor(r.states, dtype=torch.long)
    any_cost = any(r.cost for r in rollouts)
    return ScoredRollouts(
        outcomes=torch.tensor([r.outcome for r in rollouts], dtype=dtype),
        is_judged=torch.tensor([r.is_judged for r in rollouts]),
        is_cut_off=torch.tensor([r.is_cut_off for r in rollouts]),
        groups=torch.tensor([r.group for r in rollouts]),
        state_mask=state_mask,
        answer_logps=logps,
        hypothesis_mask=hypothesis_mask,
        belief=belief,
        members=[r.member for r in rollouts],
        turn_rewards=rewards if any(r.turn_rewards for r in rollouts) else None,
        states=numbers,
        costs=torch.tensor([r.cost for r in rollouts], dtype=dtype) if any_cost else None,
    )


@st.composite
def likelihoods(draw, hypotheses):
    """Of 0 to 5 steps."""
    states = draw(st.integers(1, 6))
    return [[draw(LOGPS) for _ in range(hypotheses)] for _ in range(states)]


@st.composite
def batches(draw, *, min_groups=1, min_rollouts=1, all_judged=False):
    """Draw rollouts of up to 4 prompts, in any order."""
    rollouts = []
    for group in draw(st.permutations([0, 2, 3, 9]))[: draw(st.integers(min_groups, 4))]:
        hypotheses = draw(st.integers(1, 4))
        for _ in range(draw(st.integers(min_rollouts, 5))):
            is_judged = all_judged or draw(st.integers(0, 3)) > 0
            logps = draw(likelihoods(hypotheses))
            steps = len(logps) - 1
            rollouts.append(
                Rollout(
                    group=group,
                    logps=logps,
                    outcome=draw(OUTCOMES) if is_judged else 0.0,
                    is_judged=is_judged,
                    is_cut_off=draw(st.booleans()),
                    member=draw(st.none() | st.integers(0, hypotheses - 1)),
                    cost=draw(st.sampled_from([0.0, -0.05])),
                    turn_rewards=draw(
                        st.tuples(*[st.sampled_from([0.0, 0.1, -1.0])] * max(1, steps))
                    ),
                    states=draw(st.tuples(*[st.integers(0, 2)] * max(1, steps))),
                )
            )
    return draw(st.permutations(rollouts))


def group(*outcomes, plausibilities=(0.2, 0.5), number=0):
    """Judged rollouts of one prompt that differ in nothing but their outcomes."""
    logps = [[math.log(p)] for p in plausibilities]
    return [Rollout(number, logps, outcome=v) for v in outcomes]


def rows(values, rollouts):
    """Return each rollout's values, of its steps and last of ending its turn; padding must be 0."""
    found = []
    for steps, closing, r in zip(values.steps, values.closing, rollouts, strict=True):
        number = len(r.logps) - 1
        assert not steps[number:].any()
        found.append([*steps[:number].tolist(), closing.item()])
    return found


def check(found, expected, where=None, tolerance=1e-9):
    """Compare values as [`rows`] returns them, of all rollouts or those `where` true."""
    assert len(found) == len(expected)
    for b, (row, want) in enumerate(zip(found, expected, strict=True)):
        if where is None or where[b]:
            assert row == pytest.approx(want, rel=tolerance, abs=tolerance)


def check_against(twin, estimator, rollouts, **settings):
    """Compare what an estimator says of the judged rollouts with its plain loops."""
    found = rows(estimator(scored(rollouts), **settings), rollouts)
    check(found, twin(rollouts, **settings), [r.is_judged for r in rollouts])
