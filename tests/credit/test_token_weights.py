"""From scored rollouts to the weights of tokens: names, settings, baselines, tokens, whitening."""

import json
import math
import subprocess
import sys
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.credit import CREDITS, Credit, find_credit
from barl_trl.credit.barl import barl
from barl_trl.credit.baselines import subtract_baseline
from barl_trl.credit.gae import gae
from barl_trl.credit.rollouts import at_last_state, differences, group_sums
from barl_trl.credit.token_weights import token_weights
from barl_trl.credit.whitening import moments, standardize
from barl_trl.posterior import StepValues

from .. import reference
from ..paths import ROOT
from ..reference import Rollout
from .scored import batches, check, group, rows, scored

EVERY_BASELINE = pytest.mark.parametrize(
    "baseline", ["none", "batch", "group", "leave_one_out", "step", "state", "belief"]
)


# Credits by name, and their settings


def of_ones(rollouts, *, gae_lambda=1.0):
    """Stand for an estimator that a user wrote."""
    return gae(rollouts, gae_lambda=gae_lambda)


def of_needs(rollouts, *others, step_size, max_hypotheses, beta=1.0, **more):
    """Stand for an estimator that needs fields of the configuration."""
    return gae(rollouts)


OF_ONES = Credit(of_ones, hypotheses="truth")
NOT_A_CREDIT = 3


def test_settings_are_those_that_the_estimator_takes_and_options_come_first():
    options = {"gae_lambda": 0.5, "bootstrap_cut_off": True, "progress_space": "log"}
    assert CREDITS["gae"].settings(options) == {"gae_lambda": 0.5}
    assert CREDITS["gae"].settings({"gae_lambda": 1, "credit_options": options}) == {
        "gae_lambda": 0.5
    }
    assert CREDITS["belief_critic"].settings({"belief": "task", "credit_options": options}) == {
        "gae_lambda": 0.5,
        "bootstrap_cut_off": True,
        "belief": "task",
    }
    assert CREDITS["grpo"].settings({"credit_options": options}) == {}
    assert CREDITS["gae"].settings({"credit_options": None}) == {}


def test_a_dotted_path_names_a_function_or_a_credit_which_gets_the_settings():
    found = find_credit(f"{__name__}.of_ones")
    assert found == Credit(of_ones)
    assert found.settings({"credit_options": {"gae_lambda": 0.5}}) == {"gae_lambda": 0.5}
    values = found.function(scored(group(1.0, plausibilities=(0.25, 0.5))))
    assert values.steps.tolist() == [[0.75]]
    assert find_credit(f"{__name__}.OF_ONES") is OF_ONES
    given_settings = {"step_size": 8, "max_hypotheses": None, "beta": None, "others": 1, "more": 2}
    needs = find_credit(f"{__name__}.of_needs")
    assert needs.settings(given_settings) == {"step_size": 8, "max_hypotheses": None}


@pytest.mark.parametrize(
    "name",
    [
        "gea",
        "zzz",
        "no.such",
        "a..b",
        *(f"{__name__}.{x}" for x in ("of_onse", "NOT_A_CREDIT", "math")),
    ],
)
def test_what_names_no_credit_is_refused(name):
    with pytest.raises(ValueError, match="credit must"):
        find_credit(name)


def test_names_are_known_without_torch():
    """Help and mistakes are to be quick."""
    code = "import sys, barl_trl.credit.registry; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


WITHOUT_TRL = """
import sys
for name in ("trl", "transformers", "accelerate", "datasets", "peft"):
    sys.modules[name] = None
{code}
rewards = torch.tensor([[0, 1.0, 0, 0, 2.0], [0, 0, 4.0, 0, 0], [0, 0, 8.0, 0, 0]])
mask = torch.tensor([[1, 1, 0, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 0, 0]])
print(turns_step(rewards, mask, np.array(["a", "b", "a"]))[0].tolist())
"""


def test_the_credits_work_without_trl():
    """The function in docs/extending.md: rewards to go, minus the other's at the same turn."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    code = page.rpartition("## Other trainers")[2].partition("```python\n")[2].partition("```")[0]
    command = [sys.executable, "-c", WITHOUT_TRL.format(code=code)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    # prompt a has 3 and 2 to go against 8, which also stands for the second turn, that it has not
    expected = [[3 - 8.0, 3 - 8.0, 0.0, 2 - 8.0, 2 - 8.0], [4.0] * 3 + [0.0] * 2]
    expected.append([8 - 3.0] * 3 + [0.0] * 2)
    assert json.loads(run.stdout) == expected


# What an estimator sees


def test_the_plausibility_of_the_truth_is_at_most_1_and_0_in_padding():
    """Rounding in the model's dtype may leave a log-likelihood above 0."""
    batch = scored([Rollout(0, [[0.01, -1.0], [-math.inf, 0.0]]), Rollout(0, [[0.0, 0.0]])])
    assert batch.truth_logps.tolist() == [[0.0, -math.inf], [0.0, 0.0]]
    assert batch.truth_plausibility.tolist() == [[1.0, 0.0], [1.0, 0.0]]


def test_rows_are_part_of_the_batch():
    rollouts = [Rollout(g, [[-1.0 - g], [-2.0]], 0.5 * g, member=0) for g in range(4)]
    part, expected = scored(rollouts).rows(1, 3), scored(rollouts[1:3])
    for field, value in vars(expected).items():
        found = getattr(part, field)
        is_tensor = isinstance(value, torch.Tensor)
        assert torch.equal(found, value) if is_tensor else found == value


def test_last_states_and_differences_stop_where_a_rollout_does():
    values = torch.tensor([[1.0, 3.0, 7.0], [2.0, 9.0, 9.0], [4.0, 9.0, 9.0]])
    state_mask = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0]]).bool()
    assert at_last_state(values, state_mask).tolist() == [7.0, 9.0, 4.0]
    assert differences(values, state_mask[:, 1:]).tolist() == [[2.0, 4.0], [7.0, 0.0], [0.0, 0.0]]


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from([7, -1, 30]), st.floats(-9, 9)), min_size=1, max_size=9))
def test_each_row_gets_the_sum_of_its_group(pairs):
    groups = torch.tensor([g for g, _ in pairs])
    values = torch.tensor([[x, 2 * x] for _, x in pairs], dtype=torch.float64)
    sums = [sum(y for h, y in pairs if h == g) for g, _ in pairs]
    expected = torch.tensor([[s, 2 * s] for s in sums], dtype=torch.float64)
    torch.testing.assert_close(group_sums(values, groups), expected)


# Baselines


def subtracted(rollouts, values, baseline):
    """`values`: rows as [`rows`] returns them."""
    batch = scored(rollouts)
    steps = torch.zeros(batch.step_mask.shape, dtype=torch.float64)
    for row, (*of_steps, _) in zip(steps, values, strict=True):
        row[: len(of_steps)] = torch.tensor(of_steps, dtype=torch.float64)
    closing = torch.tensor([row[-1] for row in values], dtype=torch.float64)
    return rows(subtract_baseline(StepValues(steps, closing), batch, baseline=baseline), rollouts)


@settings(max_examples=20)
@given(batches())
@EVERY_BASELINE
def test_baselines_equal_the_plain_loops(baseline, rollouts):
    values = rows(barl(scored(rollouts)), rollouts)
    expected = reference.subtract_baseline(values, rollouts, baseline)
    check(subtracted(rollouts, values, baseline), expected)


@settings(max_examples=20)
@given(batches())
@EVERY_BASELINE
def test_rollouts_that_are_not_judged_get_0_and_move_no_others(baseline, rollouts):
    values = rows(barl(scored(rollouts)), rollouts)
    other = [v if r.is_judged else [55.0] * len(v) for r, v in zip(rollouts, values, strict=True)]
    found = subtracted(rollouts, other, baseline)
    assert found == subtracted(rollouts, values, baseline)
    assert not any(any(v) for r, v in zip(rollouts, found, strict=True) if not r.is_judged)


@settings(max_examples=20)
@given(batches(all_judged=True), st.data())
@pytest.mark.parametrize("baseline", ["leave_one_out", "step", "belief"])
def test_what_is_subtracted_does_not_depend_on_the_rollouts_own_values(baseline, rollouts, data):
    values = rows(barl(scored(rollouts)), rollouts)
    chosen = data.draw(st.integers(0, len(rollouts) - 1))
    moved = list(values)
    moved[chosen] = [x + 8 for x in values[chosen]]
    before, after = (subtracted(rollouts, v, baseline)[chosen] for v in (values, moved))
    assert after == pytest.approx([x + 8 for x in before])


# Tokens


def ends_of(rollouts, sizes):
    """Steps of any sizes, and the length of each completion: the end of its turn follows."""
    ends = []
    for r in rollouts:
        steps = [next(sizes) for _ in r.logps[1:]]
        ends.append([sum(steps[: n + 1]) for n in range(len(steps))])
    return ends, [(own[-1] if own else 0) + 1 for own in ends]


def spread(rollouts, values, ends):
    """Each token's value, None without a weight, by plain loops."""
    rows = []
    for r, (*steps, closing), own in zip(rollouts, values, ends, strict=True):
        sizes = [b - a for a, b in zip([0, *own], own, strict=False)]
        row = [value for value, size in zip(steps, sizes, strict=True) for _ in range(size)]
        rows.append([value if r.is_judged else None for value in [*row, closing]])
    return rows


def whitened(rows, keys):
    """Mean 0 and standard deviation 1 over the tokens whose rows have the same key."""
    result = []
    for row, key in zip(rows, keys, strict=True):
        same = [other for other, its in zip(rows, keys, strict=True) if its == key]
        known = [value for other in same for value in other if value is not None]
        mean = sum(known) / max(len(known), 1)
        variance = sum((value - mean) ** 2 for value in known) / max(len(known), 1)
        std = math.sqrt(max(variance, 1e-8))
        result.append([None if value is None else (value - mean) / std for value in row])
    return result


@settings(max_examples=40)
@given(
    batches(min_rollouts=2),
    st.randoms(use_true_random=False),
    st.sampled_from(["none", "batch", "group"]),
    st.booleans(),
)
def test_tokens_have_their_steps_value_also_on_two_processes(rollouts, random, how, is_split):
    ends, lengths = ends_of(rollouts, iter(lambda: random.randint(1, 3), None))
    summed = [r._replace(outcome=r.outcome + sum(r.turn_rewards)) for r in rollouts]
    plain = spread(rollouts, reference.outcome(summed), ends)
    groups = [r.group for r in rollouts]
    keys = {"none": groups, "batch": [0] * len(rollouts), "group": groups}[how]
    expected = plain if how == "none" else whitened(plain, keys)

    batch = scored(rollouts)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    credit = CREDITS["rloo"]._replace(credit_baseline="none", value_normalization=how)
    cuts = [0, len(rollouts) // 2, len(rollouts)] if is_split else [0, len(rollouts)]
    parts = [slice(*cut) for cut in pairwise(cuts)]

    def weigh(part, sum_over_processes):
        return token_weights(
            batch,
            credit,
            {},
            ends[part],
            mask[part],
            start=part.start,
            sum_over_processes=sum_over_processes,
        )

    moments = []  # of each process, which all of them add up
    for part in parts:
        weigh(part, lambda own: moments.append(own) or own)
    found = [weigh(part, lambda _: sum(moments)) for part in parts]

    weights, weighed = (torch.cat([getattr(f, x) for f in found]) for x in ("weights", "mask"))
    for row, is_weighed, want in zip(weights, weighed, expected, strict=True):
        known = [value for value in want if value is not None]
        assert row[is_weighed].tolist() == pytest.approx(known, rel=1e-6, abs=1e-6)
        assert not row[~is_weighed].any()


def test_constant_values_become_zero_not_noise():
    values, groups = torch.full((3, 5), 0.1), torch.zeros(3, dtype=torch.long)
    white = standardize(
        values, groups, moments(values, torch.ones(3, 5, dtype=torch.bool), groups, num_groups=1)
    )
    assert white.abs().max() < 1e-3


def test_an_empty_batch_stays_finite():
    values, groups = torch.ones(1, 2), torch.zeros(1, dtype=torch.long)
    white = standardize(
        values, groups, moments(values, torch.zeros(1, 2, dtype=torch.bool), groups, num_groups=1)
    )
    assert white.isfinite().all()
