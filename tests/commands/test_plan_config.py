"""The settings of a run that starts on other machines."""

import pytest

from barl_trl.commands.plan_config import PlanConfig, Sharding

from ..paths import ROOT

CONFIGS = ROOT / "accelerate_configs"


def test_processes_and_sharding_are_those_of_the_accelerate_configuration(tmp_path):
    planned = PlanConfig(str(tmp_path), accelerate_config=str(CONFIGS / "zero3.yaml"))
    assert planned.world_size == planned.num_processes == 8
    assert planned.sharding == Sharding("ZeRO-3", 3)
    planned = PlanConfig(
        str(tmp_path), accelerate_config=str(CONFIGS / "ddp.yaml"), num_processes=2
    )
    assert (planned.world_size, planned.sharding) == (2, Sharding())


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
    assert planned.sharding == Sharding(
        "ZeRO-0", 0, "the stage: accelerate_config names no zero_stage"
    )
