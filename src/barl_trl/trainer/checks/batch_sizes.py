"""How prompts, rollouts, processes and optimizer steps divide, and the nearest settings that do.

Every rule is a divisibility. A whole number of micro-batches of all processes makes an optimizer
step, a whole number of optimizer steps makes a rollout batch, and a rollout batch holds whole
groups.
"""

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple


class _Unit(NamedTuple):
    """A number of rollouts by which a setting is multiplied or divided."""

    name: str
    """The settings whose product it is; empty for 1."""
    rollouts: int


_ROLLOUT = _Unit("", 1)


class _Division(NamedTuple):
    """The rule that a number of rollouts, a setting times its unit, is a multiple of `divisor`."""

    setting: str
    value: int
    unit: _Unit
    divisor: _Unit

    @property
    def is_whole(self) -> bool:
        """Whether the rule holds."""
        return self.value * self.unit.rollouts % self.divisor.rollouts == 0

    @property
    def nearest(self) -> list[int]:
        """The next lower and higher values of the setting with which the rule holds."""
        unit = self.divisor.rollouts // math.gcd(self.divisor.rollouts, self.unit.rollouts)
        lower = self.value // unit * unit
        return [value for value in (lower, lower + unit) if value]

    def __str__(self) -> str:
        size = f"{self.setting} * {self.unit.name}" if self.unit.name else self.setting
        nearest = " or ".join(map(str, self.nearest))
        return (
            f"{size} must be a multiple of {self.divisor.name} = {self.divisor.rollouts}, got "
            f"{self.value * self.unit.rollouts}: the nearest are {self.setting} = {nearest}."
        )


class BatchSettings(NamedTuple):
    """The settings that decide the sizes of batches, by their names in [`BARLConfig`].

    The first of `prompts_per_rollout_batch`, `generation_batch_size` and `steps_per_generation`
    that is set decides the size of a rollout batch. If none is set, a rollout batch is as large as
    an optimizer step. An optimizer step has `rollouts_per_optimizer_step` rollouts, or, if that is
    not set, `gradient_accumulation_steps` micro-batches on each process.
    """

    num_generations: int
    per_device_train_batch_size: int
    num_processes: int
    gradient_accumulation_steps: int = 1
    generation_batch_size: int | None = None
    steps_per_generation: int | None = None
    prompts_per_rollout_batch: int | None = None
    rollouts_per_optimizer_step: int | None = None
    per_device_eval_batch_size: int | None = None
    num_generations_eval: int | None = None

    @property
    def rollouts_at_once(self) -> int:
        """Rollouts in the micro-batches of all processes together."""
        return self.per_device_train_batch_size * self.num_processes

    @property
    def accumulation(self) -> int:
        """Number of micro-batches in an optimizer step of one process."""
        if self.rollouts_per_optimizer_step is None:
            return self.gradient_accumulation_steps
        return self.rollouts_per_optimizer_step // self.rollouts_at_once

    @property
    def rollouts(self) -> int:
        """Number of rollouts in a rollout batch of all processes."""
        setting, unit = self._rollout_batch
        return getattr(self, setting) * unit.rollouts

    @property
    def _rollout_batch(self) -> tuple[str, _Unit]:
        """The setting that decides the size of a rollout batch, and its unit."""
        units = {
            "prompts_per_rollout_batch": _Unit("num_generations", self.num_generations),
            "generation_batch_size": _ROLLOUT,
            "steps_per_generation": self._micro_batches,
            "rollouts_per_optimizer_step": _ROLLOUT,
            "gradient_accumulation_steps": self._micro_batches,
        }
        return next((name, unit) for name, unit in units.items() if getattr(self, name) is not None)

    @property
    def _micro_batches(self) -> _Unit:
        return _Unit("per_device_train_batch_size * num_processes", self.rollouts_at_once)

    def optimizer_steps(self, num_iterations: int = 1) -> Fraction:
        """Return the number of optimizer steps that train on a rollout batch.

        Args:
            num_iterations: How many times a rollout batch is trained on.
        """
        return Fraction(self.rollouts * num_iterations, self.rollouts_at_once * self.accumulation)

    def whole_accumulations(self, num_iterations: int = 1) -> list[int]:
        """Return the two nearest `gradient_accumulation_steps` that make optimizer steps whole.

        Args:
            num_iterations: How many times a rollout batch is trained on.
        """
        passes = self.rollouts // self.rollouts_at_once * num_iterations
        whole = (n for n in range(1, passes + 1) if passes % n == 0)
        return sorted(whole, key=lambda n: abs(n - self.accumulation))[:2]

    def group_parts(self) -> Counter[int]:
        """Count the sizes of the parts into which the processes cut the groups of prompts.

        Returns:
            Number of a prompt's rollouts that lie on one process -> how often that occurs.

        Example:
            >>> BatchSettings(4, 6, num_processes=2).group_parts()
            Counter({4: 2, 2: 2})
        """
        per_process = self.rollouts // self.num_processes
        cuts = {
            *range(0, self.rollouts + 1, per_process),
            *range(0, self.rollouts + 1, self.num_generations),
        }
        return Counter(b - a for a, b in pairwise(sorted(cuts)))

    def divisions(self) -> list[_Division]:
        """Return the rules of division, in the order in which a user should mend them."""
        group = "num_generations" + "_eval" * (self.num_generations_eval is not None)
        micro_batches, processes = self._micro_batches, _Unit("num_processes", self.num_processes)
        batch, step = self._rollout_batch, "rollouts_per_optimizer_step"
        rules = [
            (step, _ROLLOUT, micro_batches),
            (*batch, micro_batches),
            (*batch, _Unit(step, self.rollouts_per_optimizer_step or 1)),
            (*batch, _Unit("num_generations", self.num_generations)),
            ("per_device_eval_batch_size", processes, _Unit(group, getattr(self, group))),
        ]
        return [
            _Division(setting, getattr(self, setting), unit, divisor)
            for setting, unit, divisor in rules
            if getattr(self, setting) is not None
        ]

    def broken_rule(self) -> str | None:
        """Return the message of the first rule that is broken; None if all hold."""
        return next((str(rule) for rule in self.divisions() if not rule.is_whole), None)
