"""Batches that divide: hand calculations, and what TRL itself makes of the same settings."""

from collections import Counter
from dataclasses import dataclass

import pytest
from barl_trl.trainer.checks.batch_sizes import BatchSettings
from hypothesis import given
from hypothesis import strategies as st
from trl import GRPOConfig

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
    assert PAPER.broken_rule() is None
    assert PAPER.rollouts == 5120
    assert PAPER.accumulation == 2
    assert PAPER.rollouts // PAPER.rollouts_at_once == 80  # steps_per_generation
    assert PAPER.optimizer_steps() == 40
    assert PAPER.group_parts() == {5: 1024}  # 640 rows per rank: 128 whole groups of 5
    assert PAPER.whole_accumulations() == [2, 1]


@given(drawn())
def test_what_divides_is_what_trl_makes_of_it(batches):
    valid = batches.broken_rule() is None
    step, rollouts = batches.rollouts_per_optimizer_step, batches.rollouts
    if valid:
        args = trls(batches)
        assert args.generation_batch_size == rollouts
        assert args.steps_per_generation == rollouts // batches.rollouts_at_once
        assert args.gradient_accumulation_steps == batches.accumulation
        assert step is None or batches.optimizer_steps().denominator == 1
    elif step is None or not (step % batches.rollouts_at_once or rollouts % step):
        with pytest.raises(ValueError, match="divisible"):
            trls(batches)


@given(drawn())
def test_the_advice_is_what_is_nearest_and_mends_the_rule(batches):
    divisions = batches.divisions()
    place = next((n for n, one in enumerate(divisions) if not one.is_whole), None)
    if place is None:
        return
    rule = divisions[place]
    assert batches.broken_rule() == str(rule)
    setting, value = rule.setting, rule.value

    def keeps(other):
        return batches._replace(**{setting: other}).divisions()[place].is_whole

    assert rule.nearest
    assert all(map(keeps, rule.nearest))
    lower = max((other for other in rule.nearest if other < value), default=0)
    between = (*range(lower + 1, value), *range(value, min(o for o in rule.nearest if o > value)))
    assert not any(map(keeps, between))


@given(drawn())
def test_groups_on_processes(batches):
    if batches.broken_rule() is None:
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
            "num_processes = 56, got 128: the nearest are rollouts_per_optimizer_step = 112 or "
            "168.",
        ),
        (
            {"rollouts_per_optimizer_step": 192},
            "prompts_per_rollout_batch * num_generations must be a multiple of "
            "rollouts_per_optimizer_step = 192, got 5120: the nearest are "
            "prompts_per_rollout_batch = 960 or 1152.",
        ),
        (
            {"per_device_eval_batch_size": 8},
            "per_device_eval_batch_size * num_processes must be a multiple of num_generations = 5, "
            "got 64: the nearest are per_device_eval_batch_size = 5 or 10.",
        ),
    ],
)
def test_refusals_name_both_numbers_and_the_nearest(changes, message):
    assert PAPER._replace(**changes).broken_rule() == message


def test_the_usual_mistake():
    """TRL's defaults on one process, of which a group of 8 does not fill."""
    assert BatchSettings(8, 4, 1).broken_rule() == (
        "gradient_accumulation_steps * per_device_train_batch_size * num_processes must be a "
        "multiple of num_generations = 8, got 4: the nearest are gradient_accumulation_steps = 2."
    )
