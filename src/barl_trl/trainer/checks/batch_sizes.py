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

_ALL_MICRO_BATCHES = "per_device_train_batch_size * num_processes"


class _Size(NamedTuple):
    """A number of rollouts, which is the value of a setting times a factor."""

    setting: str
    """The name of the setting."""
    value: int
    factor_name: str = ""
    """The names of the settings whose product is the factor; empty for the factor 1."""
    factor: int = 1

    @property
    def rollouts(self) -> int:
        """The number of rollouts."""
        return self.value * self.factor

    def __str__(self) -> str:
        return f"{self.setting} * {self.factor_name}" if self.factor_name else self.setting


class _Division(NamedTuple):
    """The rule that the rollouts of `size` must be a multiple of `divisor`."""

    size: _Size
    divisor_name: str
    """The names of the settings whose product is the divisor."""
    divisor: int

    @property
    def is_whole(self) -> bool:
        """Whether the rule holds."""
        return self.size.rollouts % self.divisor == 0

    @property
    def nearest(self) -> list[int]:
        """The next lower and higher values of the size's setting with which the rule holds."""
        unit = self.divisor // math.gcd(self.divisor, self.size.factor)
        lower = self.size.value // unit * unit
        return [value for value in (lower, lower + unit) if value]

    def __str__(self) -> str:
        nearest = " or ".join(map(str, self.nearest))
        return (
            f"{self.size} must be a multiple of {self.divisor_name} = {self.divisor}, got "
            f"{self.size.rollouts}: the nearest are {self.size.setting} = {nearest}."
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
        return self._rollout_batch.rollouts

    @property
    def _rollout_batch(self) -> _Size:
        """The size of a rollout batch, with the setting that decides it."""
        if self.prompts_per_rollout_batch is not None:
            return self._size("prompts_per_rollout_batch", "num_generations", self.num_generations)
        if self.generation_batch_size is not None:
            return self._size("generation_batch_size")
        if self.steps_per_generation is not None:
            return self._size("steps_per_generation", _ALL_MICRO_BATCHES, self.rollouts_at_once)
        if self.rollouts_per_optimizer_step is not None:
            return self._size("rollouts_per_optimizer_step")
        return self._size("gradient_accumulation_steps", _ALL_MICRO_BATCHES, self.rollouts_at_once)

    def _size(self, setting: str, factor_name: str = "", factor: int = 1) -> _Size:
        return _Size(setting, getattr(self, setting), factor_name, factor)

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
        batch, step = self._rollout_batch, self.rollouts_per_optimizer_step
        divisions = [_Division(batch, _ALL_MICRO_BATCHES, self.rollouts_at_once)]
        if step is not None:
            size = self._size("rollouts_per_optimizer_step")
            divisions.insert(0, _Division(size, _ALL_MICRO_BATCHES, self.rollouts_at_once))
            divisions.append(_Division(batch, size.setting, step))
        divisions.append(_Division(batch, "num_generations", self.num_generations))
        if self.per_device_eval_batch_size is not None:
            size = self._size("per_device_eval_batch_size", "num_processes", self.num_processes)
            name = "num_generations" + "_eval" * (self.num_generations_eval is not None)
            divisions.append(_Division(size, name, getattr(self, name)))
        return divisions

    def broken_rule(self) -> str | None:
        """Return the message of the first rule that is broken; None if all hold."""
        return next((str(rule) for rule in self.divisions() if not rule.is_whole), None)
