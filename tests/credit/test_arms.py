"""Steps are weighed by an estimator with its settings, behind its credit's baseline."""

from hypothesis import given, settings

from barl_trl.credit.arms import weigh_steps
from barl_trl.credit.registry import CREDITS

from .. import reference
from .scored import batches, check, rows, scored


@settings(max_examples=30)
@given(batches(all_judged=True))
def test_settings_that_the_estimator_does_not_have_are_left_out(rollouts):
    expected = reference.subtract_baseline(reference.outcome(rollouts), rollouts, "leave_one_out")
    values = weigh_steps(scored(rollouts), CREDITS["rloo"], {"gae_lambda": 0.5})
    check(rows(values, rollouts), expected)
