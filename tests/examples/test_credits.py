"""The credits of other papers against plain loops, their limits by name, and one in training."""

import math
import re
from itertools import pairwise, product

import pytest
import torch
from datasets import Dataset
from examples import credits
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.credit import CREDITS, Credit, find_credit
from barl_trl.credit.outcome import grpo
from barl_trl.credit.token_weights import token_weights, weigh_steps
from barl_trl.rewards import accuracy_reward
from barl_trl.synthetic.search import TINY_MODEL_DIR, search_rows

from .. import reference
from ..credit.scored import batches, check, check_against, group, rows, scored
from ..paths import ROOT
from ..reference import Rollout, mean, of_group, standardized

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


PLAIN_LOOPS = {
    "maxrl": maxrl,
    "reinforce_pp": reference.outcome,
    "verifree": verifree,
    "mig": mig,
    "oppo": oppo,
    "t3": t3,
}


@settings(max_examples=50)
@given(batches())
@pytest.mark.parametrize("name", NAMES)
def test_equals_the_plain_loops(name, rollouts):
    check_against(PLAIN_LOOPS[name], getattr(credits, name).function, rollouts)


@settings(max_examples=30)
@given(batches())
@pytest.mark.parametrize("name", NAMES)
def test_rollouts_that_are_not_judged_move_no_others(name, rollouts):
    credit = getattr(credits, name)
    moved = [r if r.is_judged else r._replace(outcome=0.7, logps=[[-2.0, -1.0]]) for r in rollouts]
    judged = [r.is_judged for r in rollouts]
    found, other = (rows(weigh_steps(scored(rs), credit, {}), rs) for rs in (rollouts, moved))
    check(found, other, judged)


@settings(max_examples=30)
@given(batches(all_judged=True), st.integers(1, 4))
def test_t3_with_any_window_equals_the_plain_loops(rollouts, window):
    check_against(t3, credits.t3.function, rollouts, window=window)


def test_every_credit_says_its_source_as_the_page_does():
    page = (ROOT / "docs" / "credit.md").read_text()
    assert sorted(PLAIN_LOOPS) == NAMES
    for name in NAMES:
        [number, *_] = re.findall(r"arXiv (\d{4}\.\d{5})", getattr(credits, name).function.__doc__)
        assert re.search(rf"\| `{name}` .*arxiv\.org/abs/{number}\)", page), name


def test_the_command_line_finds_them_beside_the_registry(monkeypatch):
    monkeypatch.chdir(ROOT)
    for name in NAMES:
        assert find_credit(f"examples.credits.{name}") is getattr(credits, name)
        assert name not in CREDITS


def steps_of(name, rollouts):
    return rows(getattr(credits, name).function(scored(rollouts)), rollouts)


@pytest.mark.parametrize("successes", [1, 2, 5])
def test_maxrl_gives_all_successes_of_a_prompt_the_same_in_all(successes):
    """Of G rollouts it is G less the successes, whatever their number: rare ones weigh more."""
    found = steps_of("maxrl", group(*[1.0] * successes, *[0.0] * (8 - successes)))
    assert sum(row[0] for row in found[:successes]) == pytest.approx(8 - successes, abs=1e-4)
    assert all(row[0] == pytest.approx(-1, abs=1e-5) for row in found[successes:])


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.9])
def test_maxrl_climbs_the_first_terms_of_the_log_of_the_chance(chance):
    """Over all outcomes of 5 rollouts of a policy with one logit, whose score is v - p."""
    found = 0.0
    for outcomes in product([0.0, 1.0], repeat=5):
        weights = [row[-1] for row in steps_of("maxrl", group(*outcomes))]
        gradient = mean([a * (v - chance) for a, v in zip(weights, outcomes, strict=True)])
        found += math.prod(chance if v else 1 - chance for v in outcomes) * gradient
    terms = sum((1 - chance) ** (k - 1) for k in range(1, 5))
    assert found == pytest.approx(terms * chance * (1 - chance), rel=1e-4)


@pytest.mark.parametrize("outcomes", [(0.0, 0.0), (1.0, 1.0), (-1.0, 0.5)])
def test_maxrl_gives_nothing_without_a_success_or_a_failure(outcomes):
    assert all(value == 0 for row in steps_of("maxrl", group(*outcomes)) for value in row)


def test_reinforce_pp_has_the_groups_mean_and_the_batchs_deviation():
    """Of rollouts of two tokens each: by hand, the mean is 0 and the variance 3 / 16."""
    rollouts = [*group(1.0, 0.0), *group(1.0, 1.0, 1.0, 0.0, number=1)]
    mask = torch.ones(6, 2, dtype=torch.bool)
    weighed = token_weights(scored(rollouts), credits.reinforce_pp, {}, [[2]] * 6, mask)
    deviations = torch.tensor([0.5, -0.5, 0.25, 0.25, 0.25, -0.75], dtype=torch.float64)
    expected = deviations / (deviations**2).mean().sqrt()
    torch.testing.assert_close(weighed.weights, expected[:, None].expand(6, 2))


def test_verifree_is_rloo_on_the_probability_and_a_rollout_cut_off_has_none():
    rollouts = [r for p in (0.8, 0.2) for r in group(0.0, plausibilities=(0.5, p))]
    rollouts.append(rollouts[0]._replace(is_cut_off=True))
    values = weigh_steps(scored(rollouts), credits.verifree, {})
    expected = torch.tensor([0.8 - 0.1, 0.2 - 0.4, 0.0 - 0.5], dtype=torch.float64)
    torch.testing.assert_close(values.closing, expected)


def test_mig_pays_no_likelihood_twice():
    """To fall and to rise again earns nothing; the outcome, tied here, is all that is left."""
    straight, detour = (
        group(0.0, plausibilities=p)[0] for p in ((0.1, 0.4), (0.1, 0.4, 0.01, 0.4))
    )
    found = steps_of("mig", [straight, detour, *group(0.0, plausibilities=(0.1, 0.2))])
    assert found[0][0] == pytest.approx(found[1][0])
    assert found[0][0] > 0 > found[2][0]
    assert all(row[-1] == 0 for row in found)


def test_mig_without_gains_is_grpo():
    batch = scored(group(1.0, 0.0, 0.0, plausibilities=(0.5, 0.3, 0.2)))
    torch.testing.assert_close(credits.mig.function(batch), grpo(batch))


@settings(max_examples=30)
@given(batches(all_judged=True))
def test_oppo_sums_to_the_outcome_less_the_prior(rollouts):
    for r, row in zip(rollouts, steps_of("oppo", rollouts), strict=True):
        others = [min(max(o.outcome, 0), 1) for o in of_group(r, rollouts) if o is not r]
        assert sum(row) == pytest.approx(r.outcome - (1 + sum(others)) / (2 + len(others)))


def test_oppo_without_evidence_leaves_all_to_the_end():
    assert steps_of("oppo", group(1.0, plausibilities=(0.3, 0.3, 0.3))) == [[0.0, 0.0, 0.5]]


def test_oppo_is_evidence_times_the_doubt_for_a_small_step():
    [row] = steps_of("oppo", group(1.0, plausibilities=(0.3, 0.3 * math.exp(1e-4))))
    assert row[0] == pytest.approx(1e-4 * 0.5 * 0.5, rel=1e-3)


def test_t3_keeps_what_narrows_and_cuts_after_three_steps_that_do_not():
    even, sure, firm = [-1.0, -1.0], [-0.5, -2.0], [-0.1, -4.0]
    narrowing = Rollout(0, [even, sure, firm], outcome=1.0)
    stuck = Rollout(0, [even, sure, *[sure] * 5], outcome=0.0)
    kept, cut = steps_of("t3", [narrowing, stuck])
    plain, fails = rows(grpo(scored([narrowing, stuck])), [narrowing, stuck])
    assert kept == plain
    assert [weight != 0 for weight in cut] == [True] * 4 + [False] * 3
    assert cut[:4] == fails[:4]


def test_one_trains(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    trainer = BARLTrainer(
        model=str(TINY_MODEL_DIR),
        reward_funcs=accuracy_reward,
        args=BARLConfig(
            str(tmp_path),
            credit="examples.credits.oppo",
            max_steps=1,
            logging_steps=1,
            num_generations=4,
            per_device_train_batch_size=8,
            max_completion_length=48,
            step_size=12,
            save_strategy="no",
            use_cpu=True,
            bf16=False,
        ),
        train_dataset=Dataset.from_list(search_rows(8, seed=0)),
    )
    before = {name: p.clone() for name, p in trainer.model.named_parameters()}
    trainer.train()
    [logged, _] = trainer.state.log_history
    assert logged["barl/scoring_tokens"] > 0
    assert 0 < logged["grad_norm"] < math.inf
    assert any((p != before[name]).any() for name, p in trainer.model.named_parameters())
