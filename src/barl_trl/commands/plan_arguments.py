"""The arguments of `barl plan` beside those of `barl train`."""

from dataclasses import dataclass

from ..trainer.barl_fields import option
from .launching import LaunchFields


@dataclass
class PlanFields(LaunchFields):
    """The arguments of `barl plan` beside those of `barl train`."""

    num_train_rows: int | None = option(None, "Rows of the dataset: says how long an epoch is.")
