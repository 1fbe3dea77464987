"""The arguments of `barl plan` beside those of `barl train`."""

from dataclasses import dataclass

from ..trainer.barl_fields import option


@dataclass
class PlanFields:
    """The arguments of `barl plan` beside those of `barl train`."""

    num_processes: int | None = option(
        None,
        "Processes that train, one for each device. Default: `accelerate_config`'s, or else 1.",
    )
    accelerate_config: str | None = option(
        None, "What `accelerate launch --config_file` will get: says what is sharded."
    )
    num_train_rows: int | None = option(None, "Rows of the dataset: says how long an epoch is.")
