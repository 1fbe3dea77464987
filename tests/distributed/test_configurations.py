"""The shipped accelerate configurations, started on CPUs."""

import json

import pytest
import yaml

from barl_trl.synthetic.search import TINY_MODEL_DIR

from .launching import ROOT, launch

CONFIGS = ROOT / "accelerate_configs"
SHARDED = [
    "cpu/zero1.yaml",
    "cpu/zero2.yaml",
    "cpu/zero3.yaml",
    "cpu/fsdp2.yaml",
    "zero3_offload.yaml",
    "single_gpu.yaml",
]


@pytest.mark.parametrize("twin", sorted((CONFIGS / "cpu").iterdir()), ids=lambda path: path.name)
def test_twins_differ_in_processes_and_precision_only(twin):
    config = yaml.safe_load((CONFIGS / twin.name).read_text())
    config |= {"num_processes": 2, "mixed_precision": "no"}
    assert yaml.safe_load(twin.read_text()) == config


@pytest.mark.slow
@pytest.mark.parametrize("config", SHARDED)
def test_barl_train_starts(tmp_path, config):
    recipe = {
        "model_name_or_path": str(TINY_MODEL_DIR),
        "dataset_name": str(ROOT / "examples" / "problems.jsonl"),
        "prompt_template": "{problem}\n",
        "output_dir": str(tmp_path / "out"),
        "use_cpu": True,
        "bf16": False,
        "per_device_train_batch_size": 4,
        "num_generations": 4,
        "max_completion_length": 16,
        "step_size": 8,
        "max_steps": 2,
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    launch(
        config,
        "barl_trl.cli",
        "train",
        "--config",
        str(tmp_path / "recipe.yaml"),
        deadline=900,
        options=[] if config.startswith("cpu") else ["--num_processes", "2"],
    )
    assert (tmp_path / "out" / "model.safetensors").exists()
    state = json.loads((tmp_path / "out" / "checkpoint-2" / "trainer_state.json").read_text())
    assert state["log_history"][0]["barl/hypotheses_per_prompt"] >= 1
