"""The settings of a run that is planned, and what it spreads over processes."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from accelerate import DistributedType
from accelerate.commands.config.config_args import load_config_from_file

from ..trainer import BARLConfig
from .plan_arguments import PlanFields
from .recipes import file_of


@dataclass
class PlanConfig(PlanFields, BARLConfig):
    """The settings of a run on other machines; the devices of this one do not matter."""

    def __post_init__(self):
        name = self.accelerate_config
        file = file_of("accelerate_config", name) if name is not None else None
        cluster: Any = load_config_from_file(str(file)) if file is not None else None
        self.sharding = Sharding.of(cluster) if cluster else Sharding()
        if self.deepspeed or self.fsdp:
            unknown = "deepspeed and fsdp of a recipe: give --accelerate_config"
            self.sharding = self.sharding._replace(unknown=unknown)
        if self.num_processes is None:
            self.num_processes = cluster.num_processes if cluster else 1
        for name in ("num_processes", "num_train_rows"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        here = {"use_cpu": True, "tf32": None, "torch_compile": False, "deepspeed": None}
        there = {name: getattr(self, name) for name in here}
        vars(self).update(here)
        BARLConfig.__post_init__(self)
        vars(self).update(there)

    @property
    def world_size(self):
        """The number of processes to plan for."""
        return self.num_processes


class Sharding(NamedTuple):
    """What is spread over the processes: ZeRO's stages, and FSDP as the third.

    Args:
        name: What it is.
        stage: See [`training_bytes`].
        unknown: What the estimate leaves out.
    """

    name: str = "a copy of the model on each"
    stage: int = 0
    unknown: str | None = None

    @classmethod
    def of(cls, cluster: Any) -> "Sharding":
        """Return the sharding that an accelerate configuration asks for."""
        settings = cluster.deepspeed_config | cluster.fsdp_config
        moved = [name for name, value in settings.items() if "offload" in name]
        moved = [name for name in moved if settings[name] not in (False, None, "none")]
        unknown = f"what {' and '.join(moved)} moves away" if moved else None
        if cluster.distributed_type == DistributedType.FSDP:
            return cls("FSDP", 3, unknown)
        if cluster.distributed_type != DistributedType.DEEPSPEED:
            return cls(unknown=unknown)
        if "zero_stage" not in settings:
            unknown = "the stage: accelerate_config names no zero_stage"
        stage = int(settings.get("zero_stage", 0))
        return cls(f"ZeRO-{stage}", stage, unknown)
