"""Arms: whose settings reach the estimator and its baseline, and whose are refused."""

import pytest
from hypothesis import given, settings

from barl_trl.credit.gae import gae
from barl_trl.credit.registry import CREDITS
from barl_trl.credit.token_weights import weigh_steps
from experiments.credit.arms import ARMS, CreditArm

from ... import reference
from ...credit.scored import batches, check, rows, scored


def of_mine(rollouts, *, gae_lambda=0.25):
    """Stand for an estimator that a user wrote."""
    return gae(rollouts, gae_lambda=gae_lambda)


@settings(max_examples=30)
@given(batches(all_judged=True))
def test_values_are_the_estimators_with_the_arms_settings_behind_the_arms_baseline(rollouts):
    for lam, arm in [
        (0.9, CreditArm("gae", settings={"gae_lambda": 0.9, "credit_baseline": "group"})),
        (1.0, CreditArm("gae", settings={"credit_baseline": "group"})),
        (0.25, CreditArm(f"{__name__}.of_mine", settings={"credit_baseline": "group"})),
    ]:
        plain = reference.subtract_baseline(reference.gae(rollouts, lam), rollouts, "group")
        check(rows(weigh_steps(scored(rollouts), arm.credit_in_use, arm.settings), rollouts), plain)


def test_fields_of_the_credit_are_replaced_in_this_arm_alone():
    arm = CreditArm("barl", settings={"answer_likelihood": "sum", "outcome_mode": "hypothesis"})
    assert arm.credit_in_use == CREDITS["barl"]._replace(answer_likelihood="sum")
    assert CREDITS["barl"].answer_likelihood == "mean"
    assert ARMS["barl"].credit_in_use == CREDITS["barl"]


def test_no_two_arms_of_the_evidence_are_the_same():
    said = [
        (arm.credit_in_use, arm.credit_in_use.settings(arm.settings), arm.consistency_beta)
        for arm in ARMS.values()
    ]
    assert all(one not in said[:n] for n, one in enumerate(said))


OF_CREDIT = "'hypotheses', 'answer_likelihood', 'credit_baseline', 'value_normalization'"


@pytest.mark.parametrize(
    ("credit", "setting", "allowed", "nearest"),
    [
        ("gae", "lambda", f"'gae_lambda', {OF_CREDIT}", "gae_lambda"),
        (f"{__name__}.of_mine", "gea_lambda", f"'gae_lambda', {OF_CREDIT}", "gae_lambda"),
        ("grpo", "credit_baselines", OF_CREDIT, "credit_baseline"),
        ("grpo", "gae_lambda", OF_CREDIT, ".*"),  # of another credit
        ("barl", "estimator", f"'outcome_mode', {OF_CREDIT}", ".*"),  # it would be another credit
    ],
)
def test_a_setting_that_nothing_takes_is_refused(credit, setting, allowed, nearest):
    message = rf"among \[{allowed}\], got '{setting}': did you mean '{nearest}'\?"
    with pytest.raises(ValueError, match=f"settings of '{credit}' must be {message}"):
        CreditArm(credit, settings={setting: 1.0})
