"""The arguments of `barl plan` beside those of `barl train`."""

from dataclasses import dataclass, field


@dataclass
class PlanFields:
    """The arguments of `barl plan` beside those of `barl train`."""

    num_processes: int | None = field(
        default=None,
        metadata={
            "help": "Processes that train, one for each device. Default: `accelerate_config`'s, or "
            "else 1."
        },
    )
    accelerate_config: str | None = field(
        default=None,
        metadata={"help": "What `accelerate launch --config_file` will get: says what is sharded."},
    )
    num_train_rows: int | None = field(
        default=None, metadata={"help": "Rows of the dataset: says how long an epoch is."}
    )
