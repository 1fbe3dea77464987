"""Batches that divide: hand calculations, and what TRL itself makes of the same settings."""

import math
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trl import GRPOConfig

from barl_trl.batches import BatchSettings, nearest_valid, why_not

PAPER = BatchSettings(5, 8, 8, prompts_per_rollout_batch=1024, rollouts_per_optimizer_step=128)


@dataclass
class OnProcesses(GRPOConfig):
    """TRL's configuration as each of several processes makes it."""

    num_processes: int = 1

    @property
    def world_size(self):
        return self.num_processes


def trls(batches):
    """What TRL derives from its own fields, which are computed here from the two of BARL."""
    given = {name: value for name, value in batches._asdict().items() if value is not None}
    prompts = given.pop("prompts_per_rollout_batch", None)
    step = given.pop("rollouts_per_optimizer_step", None)
    if prompts is not None:
        given["generation_batch_size"] = prompts * batches.num_generations
    if step is not None:
        micro_batch = batches.per_device_train_batch_size * batches.num_processes
        given["gradient_accumulation_steps"] = step // micro_batch
        assert step % micro_batch == 0
    evaluates = "per_device_eval_batch_size" in given
    return OnProcesses(
        "out", use_cpu=True, bf16=False, eval_strategy="epoch" if evaluates else "no", **given
    )


def sizes(largest):
    return st.integers(1, largest)


@st.composite
def drawn(draw):
    """Settings that may divide or not; a rollout batch is given in one of all ways."""
    ways = ["prompts_per_rollout_batch", "generation_batch_size", "steps_per_generation", None]
    source = draw(st.sampled_from(ways))
    by_rollouts = draw(st.booleans())
    evaluation = {"per_device_eval_batch_size": draw(sizes(8))} if draw(st.booleans()) else {}
    return BatchSettings(
        num_generations=draw(st.integers(2, 8)),
        per_device_train_batch_size=draw(sizes(8)),
        num_processes=draw(sizes(8)),
        gradient_accumulation_steps=1 if by_rollouts else draw(sizes(6)),
        rollouts_per_optimizer_step=draw(sizes(64)) if by_rollouts else None,
        **({source: draw(sizes(64))} if source else {}),
        **evaluation,
    )


def test_the_papers_shape_on_eight_gpus():
    assert why_not(PAPER) is None
    assert PAPER.rollouts == 5120
    assert PAPER.accumulation == 2
    assert PAPER.rollouts // PAPER.micro_batch == 80  # steps_per_generation
    assert PAPER.optimizer_steps() == 40
    assert PAPER.group_parts() == {5: 1024}  # 640 rows per rank: 128 whole groups of 5
    assert PAPER.whole_accumulations() == [2, 1]


@settings(deadline=None)
@given(drawn())
def test_what_divides_is_what_trl_makes_of_it(batches):
    valid = why_not(batches) is None
    step, rollouts = batches.rollouts_per_optimizer_step, batches.rollouts
    if valid:
        args = trls(batches)
        assert args.generation_batch_size == rollouts
        assert args.steps_per_generation == rollouts // batches.micro_batch
        assert args.gradient_accumulation_steps == batches.accumulation
        assert step is None or batches.optimizer_steps().denominator == 1
    elif step is None or not (step % batches.micro_batch or rollouts % step):
        with pytest.raises(ValueError, match="divisible"):
            trls(batches)


@settings(deadline=None)
@given(drawn())
def test_the_nearest_settings_are_valid(batches):
    if why_not(batches) is not None:
        others = nearest_valid(batches)
        assert others
        for other in others:
            assert trls(other).generation_batch_size == other.rollouts
            assert other.optimizer_steps() >= 1 or other.rollouts_per_optimizer_step is None


@settings(deadline=None)
@given(drawn())
def test_there_is_nothing_nearer(batches):
    for other in nearest_valid(batches) if why_not(batches) else []:
        change = batches.changes(other)
        if len(change) == 1:
            [(name, value)] = change.items()
            old = getattr(batches, name)
            between = range(min(old, value) + 1, max(old, value))
            assert all(why_not(batches._replace(**{name: v})) for v in between)


@settings(deadline=None)
@given(drawn())
def test_groups_on_processes(batches):
    if why_not(batches) is None:
        per_process = batches.rollouts // batches.num_processes
        places = (
            (row // per_process, row // batches.num_generations) for row in range(batches.rollouts)
        )
        assert batches.group_parts() == Counter(Counter(places).values())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"num_processes": 7},
            "rollouts_per_optimizer_step must be a multiple of per_device_train_batch_size * "
            "num_processes = 56, got 128: the nearest that divide are num_processes = 8 or 4.",
        ),
        (
            {"rollouts_per_optimizer_step": 192},
            "prompts_per_rollout_batch * num_generations must be a multiple of "
            "rollouts_per_optimizer_step = 192, got 5120: the nearest that divide are "
            "prompts_per_rollout_batch = 960 or 1152; num_generations = 6 or 3; "
            "rollouts_per_optimizer_step = 256 or 128.",
        ),
        (
            {"prompts_per_rollout_batch": 1000, "rollouts_per_optimizer_step": 100},
            "got 100: the nearest that divide are prompts_per_rollout_batch and "
            "rollouts_per_optimizer_step = 1024 and 128",
        ),
        (
            {"per_device_eval_batch_size": 8},
            "per_device_eval_batch_size * num_processes must be a multiple of num_generations = 5, "
            "got 64: the nearest that divide are num_generations = 4",
        ),
    ],
)
def test_refusals_name_both_numbers_and_the_nearest(changes, message):
    assert message in str(why_not(PAPER._replace(**changes)))


def test_the_best_changes_come_first():
    others = nearest_valid(PAPER._replace(rollouts_per_optimizer_step=120))
    steps = [other.rollouts_per_optimizer_step for other in others]
    assert steps == sorted(steps, key=lambda step: abs(math.log(step / 120)))
