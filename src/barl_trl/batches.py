"""How prompts, rollouts, processes and optimizer steps divide, and what would where they do not.

Every rule is a divisibility: a whole number of micro-batches of all processes makes an optimizer
step, a whole number of optimizer steps a rollout batch, and a rollout batch holds whole groups.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

MICRO_BATCH = "per_device_train_batch_size * num_processes"


class Rule(NamedTuple):
    """`value` must be a multiple of `divisor`; both with what they are."""

    name: str
    value: int
    divisor_name: str
    divisor: int


class BatchSettings(NamedTuple):
    """The settings that decide the sizes of batches, by their names in [`BARLConfig`].

    Args:
        num_generations: Rollouts of a prompt.
        per_device_train_batch_size: Rollouts of a micro-batch on one process.
        num_processes: Processes, one for each device.
        gradient_accumulation_steps: Micro-batches of an optimizer step; unused where
            `rollouts_per_optimizer_step` says how many rollouts those are.
        generation_batch_size: Rollouts of a rollout batch, of all processes.
        steps_per_generation: Micro-batches of a rollout batch. Without any of these three settings
            it is one optimizer step long.
        prompts_per_rollout_batch: Prompts of a rollout batch.
        rollouts_per_optimizer_step: Rollouts of an optimizer step, of all processes.
        per_device_eval_batch_size: Rollouts of an evaluation batch on one process, if evaluated.
        num_generations_eval: Rollouts of a prompt in evaluation.
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
    def micro_batch(self) -> int:
        """Rollouts that all processes feed at once."""
        return self.per_device_train_batch_size * self.num_processes

    @property
    def accumulation(self) -> int:
        """Micro-batches of an optimizer step."""
        if self.rollouts_per_optimizer_step is None:
            return self.gradient_accumulation_steps
        return self.rollouts_per_optimizer_step // self.micro_batch

    @property
    def rollouts(self) -> int:
        """Rollouts of a rollout batch."""
        return self._rollout_batch[1]

    @property
    def _rollout_batch(self) -> tuple[str, int]:
        """Rollouts of a rollout batch, behind the setting that they follow from."""
        if (prompts := self.prompts_per_rollout_batch) is not None:
            name = "prompts_per_rollout_batch * num_generations"
            return name, prompts * self.num_generations
        if self.generation_batch_size is not None:
            return "generation_batch_size", self.generation_batch_size
        if (steps := self.steps_per_generation) is not None:
            return f"{MICRO_BATCH} * steps_per_generation", self.micro_batch * steps
        if self.rollouts_per_optimizer_step is not None:
            return "rollouts_per_optimizer_step", self.rollouts_per_optimizer_step
        name = f"{MICRO_BATCH} * gradient_accumulation_steps"
        return name, self.micro_batch * self.gradient_accumulation_steps

    def optimizer_steps(self, num_iterations: int = 1) -> Fraction:
        """Optimizer steps on a rollout batch that is gone through `num_iterations` times."""
        return Fraction(self.rollouts * num_iterations, self.micro_batch * self.accumulation)

    def whole_accumulations(self, num_iterations: int = 1) -> list[int]:
        """The two nearest `gradient_accumulation_steps` with a whole number of optimizer steps."""
        micro_steps = self.rollouts // self.micro_batch * num_iterations
        whole = (n for n in range(1, micro_steps + 1) if micro_steps % n == 0)
        return sorted(whole, key=lambda n: abs(n - self.accumulation))[:2]

    def group_parts(self) -> Counter[int]:
        """How many rollouts of a prompt lie together on one process, and how often.

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

    def rules(self) -> list[Rule]:
        """What must divide what, first things first."""
        rules = [Rule(*self._rollout_batch, MICRO_BATCH, self.micro_batch)]
        if (step := self.rollouts_per_optimizer_step) is not None:
            name = "rollouts_per_optimizer_step"
            rules.insert(0, Rule(name, step, MICRO_BATCH, self.micro_batch))
            rules.append(Rule(*self._rollout_batch, name, step))
        rules.append(Rule(*self._rollout_batch, "num_generations", self.num_generations))
        if (rows := self.per_device_eval_batch_size) is not None:
            name = "per_device_eval_batch_size * num_processes"
            given = self.num_generations_eval
            group = ("num_generations", self.num_generations)
            group = group if given is None else ("num_generations_eval", given)
            rules.append(Rule(name, rows * self.num_processes, *group))
        return rules

    def num_kept(self) -> float:
        """How many rules hold before the first that does not; `inf` if all do."""
        broken = (n for n, rule in enumerate(self.rules()) if rule.value % rule.divisor)
        return next(broken, math.inf)

    def changes(self, others: "BatchSettings") -> dict[str, int]:
        """The settings that `others` has differently, with its values."""
        pairs = zip(self._fields, self, others, strict=True)
        return {name: new for name, old, new in pairs if new != old and new is not None}


def nearest_valid(settings: BatchSettings) -> list[BatchSettings]:
    """The nearest settings that keep all rules: one changed, or several where one is not enough."""
    valid = list(_neighbours(settings, lambda other: other.num_kept() == math.inf))
    if not valid:
        kept = settings.num_kept()
        closer = list(_neighbours(settings, lambda other: other.num_kept() > kept))
        for other in sorted(closer, key=lambda other: _distance(settings, other))[:3]:
            valid += nearest_valid(other)
    return sorted(set(valid), key=lambda other: _distance(settings, other))


def why_not(settings: BatchSettings) -> str | None:
    """Say which rule the settings break, with both numbers, and what does divide."""
    if settings.num_kept() == math.inf:
        return None
    rule = settings.rules()[int(settings.num_kept())]
    options: dict[tuple[str, ...], list[dict[str, int]]] = {}
    for other in nearest_valid(settings):
        change = settings.changes(other)
        options.setdefault(tuple(change), []).append(change)
    texts = [
        f"{' and '.join(names)} = "
        + " or ".join(" and ".join(map(str, change.values())) for change in changes[:2])
        for names, changes in list(options.items())[:4]
    ]
    return (
        f"{rule.name} must be a multiple of {rule.divisor_name} = {rule.divisor}, got "
        f"{rule.value}: the nearest that divide are {'; '.join(texts)}."
    )


def _neighbours(
    settings: BatchSettings, accept: Callable[[BatchSettings], bool]
) -> Iterator[BatchSettings]:
    """Of each setting that is given, the next lower and the next higher value that is accepted."""
    divisors = [rule.divisor for rule in settings.rules()]
    farthest = max(settings.rollouts, settings.num_generations * max(divisors))
    for name, value in settings._asdict().items():
        if value is None:
            continue
        lowest = 2 if name.startswith("num_generations") else 1
        for values in (range(value - 1, lowest - 1, -1), range(value + 1, value + farthest + 1)):
            others = (settings._replace(**{name: other}) for other in values)
            yield from next(([other] for other in others if accept(other)), [])


def _distance(settings: BatchSettings, other: BatchSettings) -> float:
    """Sum of the factors, in octaves, by which settings were changed."""
    changed = settings.changes(other).items()
    return sum(abs(math.log2(value / getattr(settings, name))) for name, value in changed)
