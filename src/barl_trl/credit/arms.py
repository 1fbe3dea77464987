"""The values of steps that a credit gives, behind its baseline."""

from collections.abc import Mapping
from typing import Any

from ..posterior import StepValues
from .baselines import subtract_baseline
from .registry import Credit
from .rollouts import ScoredRollouts


def weigh_steps(
    rollouts: ScoredRollouts, credit: Credit, settings: Mapping[str, Any]
) -> StepValues:
    """Return the values of steps that a credit gives, minus its baseline.

    Args:
        rollouts: With the hypotheses that the credit asks for.
        credit: The credit.
        settings: Those of the estimator's settings that are known, and perhaps others.
    """
    values = credit.function(rollouts, **credit.settings(settings))
    return subtract_baseline(values, rollouts, baseline=credit.credit_baseline)
