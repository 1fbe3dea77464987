"""The settings of a run that starts on other machines; its tokens and optimizer steps: by hand, and
beside what a run does.
"""

import math

import pytest

from barl_trl.commands.plan.planned_run import PlanConfig, Shape, _Sharding

from ..paths import ROOT
from ..trainer.rollouts import config, trainer

CONFIGS = ROOT / "accelerate_configs"


def test_processes_and_sharding_are_those_of_the_accelerate_configuration(tmp_path):
    planned = PlanConfig(str(tmp_path), accelerate_config=str(CONFIGS / "zero3.yaml"))
    assert planned.world_size == planned.num_processes == 8
    assert planned.sharding == _Sharding("ZeRO-3", 3)
    planned = PlanConfig(
        str(tmp_path), accelerate_config=str(CONFIGS / "ddp.yaml"), num_processes=2
    )
    assert (planned.world_size, planned.sharding) == (2, _Sharding())


def test_without_one_a_single_process_is_planned_for(tmp_path):
    assert PlanConfig(str(tmp_path)).world_size == 1


def test_no_device_of_this_machine_is_asked_for(tmp_path):
    """GPUs and DeepSpeed are on the machines that will train."""
    planned = PlanConfig(str(tmp_path), bf16=True, tf32=True, deepspeed={"stage": 2})
    assert (planned.bf16, planned.tf32, planned.use_cpu) == (True, True, False)
    assert planned.sharding.unknown == "deepspeed and fsdp of a recipe: give --accelerate_config"


def test_batches_are_those_of_all_processes(tmp_path):
    settings = {"prompts_per_rollout_batch": 16, "rollouts_per_optimizer_step": 32}
    settings |= {"num_generations": 4, "per_device_train_batch_size": 2}
    planned = PlanConfig(str(tmp_path), num_processes=4, **settings)
    assert (planned.generation_batch_size, planned.gradient_accumulation_steps) == (64, 4)
    with pytest.raises(ValueError, match="rollouts_per_optimizer_step must be"):
        PlanConfig(str(tmp_path), num_processes=5, **settings)


@pytest.mark.parametrize("name", ["num_processes", "num_train_rows"])
def test_there_is_one_at_least(tmp_path, name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0."):
        PlanConfig(str(tmp_path), **{name: 0})


def test_a_stage_that_is_not_named_is_unknown(tmp_path):
    path = tmp_path / "deepspeed.yaml"
    path.write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_processes: 2\n"
        "deepspeed_config: {deepspeed_config_file: ds.json}\nuse_cpu: false\n"
    )
    planned = PlanConfig(str(tmp_path), accelerate_config=str(path))
    assert planned.sharding == _Sharding(
        "ZeRO-0", 0, "the stage: accelerate_config names no zero_stage"
    )


@pytest.mark.parametrize("max_hypotheses", [None, 3])
def test_tokens_of_a_group(max_hypotheses):
    num = max_hypotheses or 6
    shape = Shape(prompt=512, completion=1024, step=128, hypotheses=num)
    branch = 12 + 1 + 6 * num
    assert shape._scored_tokens(5) == 5 * (1536 + 8 * branch) + branch
    assert shape._scored_tokens(2) == 2 * (1536 + 8 * branch) + branch
    # a sequence for each state and answer: the state, the elicitation, all but the answer's last
    states = sum(range(512, 1536 + 1, 128))
    assert shape._scored_tokens(1, "reencode") == num * (states + 9 * (12 + 7))


@pytest.mark.parametrize("num_iterations", [1, 2])
@pytest.mark.parametrize("epochs", [1, 1.5])
def test_a_run_takes_the_steps_of_its_plan(model, tokenizer, tmp_path, num_iterations, epochs):
    """Five rows are two rollout batches of two prompts; the fifth is left out."""
    settings = {
        "prompts_per_rollout_batch": 2,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2 if num_iterations == 1 else 3,
        "num_train_epochs": epochs,
        "num_iterations": num_iterations,
        "max_steps": -1,
        "max_completion_length": 4,
    }
    args = config(tmp_path, **settings)
    run = trainer(model, tokenizer, args, rows=[("1+1?", "2")] * 5)
    run.train()
    planned = PlanConfig(
        "out", num_generations=4, num_train_rows=5, num_processes=1, bf16=False, **settings
    )
    steps, batches = planned.total_steps()
    assert run.state.global_step == steps
    assert batches == math.ceil(
        steps * settings["gradient_accumulation_steps"] / 2 / num_iterations
    )
