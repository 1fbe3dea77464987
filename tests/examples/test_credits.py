"""The credits of other papers against plain loops, and one in training."""

import math
from itertools import pairwise

import pytest
from examples import credits
from hypothesis import given, settings

from barl_trl.credit import Credit, find_credit
from barl_trl.credit.token_weights import weigh_steps

from .. import reference
from ..credit.scored import batches, check, check_against, rows, scored
from ..paths import ROOT
from ..reference import mean, of_group, standardized
from ..trainer.rollouts import config, trainer

NAMES = sorted(name for name, value in vars(credits).items() if isinstance(value, Credit))


def maxrl(rollouts):
    values = []
    for r in rollouts:
        rate = mean([o.outcome for o in of_group(r, rollouts)])
        values.append([(r.outcome - rate) / (rate + 1e-6) if rate > 0 else 0.0] * len(r.logps))
    return values


def verifree(rollouts):
    return [[0.0 if r.is_cut_off else r.plausibilities[-1]] * len(r.logps) for r in rollouts]


def gains(r):
    """What each state has above all before it."""
    found = r.log_plausibilities
    return [max(0.0, found[t] - max(found[:t])) for t in range(1, len(found))]


def mig(rollouts):
    values = []
    for r in rollouts:
        others = of_group(r, rollouts)
        outcome = standardized(r.outcome, [o.outcome for o in others])
        process = standardized(sum(gains(r)), [sum(gains(o)) for o in others])
        values.append([process + outcome] * (len(r.logps) - 1) + [outcome])
    return values


def oppo(rollouts):
    """By odds: each step multiplies them with what it does to the truth's probability."""
    values = []
    for r in rollouts:
        others = [min(max(o.outcome, 0), 1) for o in of_group(r, rollouts) if o is not r]
        chance = (1 + sum(others)) / (2 + len(others))
        chances = []
        for found in r.log_plausibilities:
            odds = chance / (1 - chance) * math.exp(found - r.log_plausibilities[0])
            chances.append(odds / (1 + odds))
        chances.append(r.outcome)
        values.append([after - before for before, after in pairwise(chances)])
    return values


def t3(rollouts, window=3, least=1e-6):
    values = []
    for r, row in zip(rollouts, reference.grpo(rollouts), strict=True):
        unsure = [reference.entropy(belief) for belief in r.belief]
        stalled, kept = 0, []
        for t, weight in enumerate(row):
            kept.append(weight if stalled < window else 0.0)
            if stalled < window and t + 1 < len(unsure):
                stalled = stalled + 1 if unsure[t] - unsure[t + 1] <= least else 0
        values.append(kept)
    return values


PLAIN_LOOPS = {"maxrl": maxrl, "reinforce_pp": reference.outcome, "verifree": verifree}
PLAIN_LOOPS |= {"mig": mig, "oppo": oppo, "t3": t3}


@given(batches())
@pytest.mark.parametrize("name", NAMES)
def test_equals_the_plain_loops(name, rollouts):
    check_against(PLAIN_LOOPS[name], getattr(credits, name).function, rollouts)


@settings(max_examples=30)
@given(batches())
@pytest.mark.parametrize("name", NAMES)
def test_rollouts_that_are_not_judged_move_no_others(name, rollouts):
    credit = getattr(credits, name)
    other = {"outcome": 0.7, "logps": [[-2.0, -1.0]], "turn_rewards": (), "states": ()}
    moved = [r if r.is_judged else r._replace(**other) for r in rollouts]
    judged = [r.is_judged for r in rollouts]
    found, other = (rows(weigh_steps(scored(rs), credit, {}), rs) for rs in (rollouts, moved))
    check(found, other, judged)


def test_one_trains(tmp_path, model, tokenizer, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert find_credit("examples.credits.oppo") is credits.oppo
    args = config(tmp_path, credit="examples.credits.oppo")
    made = trainer(model, tokenizer, args)
    made.train()
    logged, *_ = made.state.log_history
    assert logged["barl/scoring_tokens"] > 0
    assert 0 < logged["grad_norm"] < math.inf
