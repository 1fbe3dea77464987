"""Estimators of credit: from what one scoring pass says of rollouts to a value for every step.

One file for each idea, one line for each name in `registry`. To add one, write a function

    def my_credit(rollouts: ScoredRollouts) -> StepValues: ...

and name it by its dotted path: `BARLConfig(credit="my_module.my_credit")`. Its keyword parameters
get the fields of the configuration that have their names.
"""

from .registry import CREDITS, Credit, find_credit

__all__ = ["CREDITS", "Credit", "find_credit"]
