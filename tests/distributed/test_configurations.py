"""The shipped accelerate configurations, started on CPUs."""

import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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


RECIPE = {
    "model_name_or_path": str(TINY_MODEL_DIR),
    "dataset_name": str(ROOT / "examples" / "problems.jsonl"),
    "prompt_template": "{problem}\n",
    "use_cpu": True,
    "bf16": False,
    "per_device_train_batch_size": 4,
    "num_generations": 4,
    "max_completion_length": 16,
    "step_size": 8,
    "max_steps": 2,
    "logging_steps": 1,
}


def assert_trained(folder):
    assert (folder / "model.safetensors").exists()
    state = json.loads((folder / "checkpoint-2" / "trainer_state.json").read_text())
    assert state["log_history"][0]["barl/hypotheses_per_prompt"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("config", SHARDED)
def test_barl_train_starts(tmp_path, config):
    recipe = RECIPE | {"output_dir": str(tmp_path / "out")}
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
    assert_trained(tmp_path / "out")


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


@pytest.mark.slow
def test_two_machines(tmp_path, port):
    """Each with a launcher of its own, as docs/launching.md has it."""
    recipe = RECIPE | {"output_dir": str(tmp_path / "out")}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    meeting = ["--main_process_ip", "127.0.0.1", "--main_process_port", port]
    arguments = ["barl_trl.cli", "train", "--config", str(tmp_path / "recipe.yaml")]
    with ThreadPoolExecutor() as pool:
        machines = [
            pool.submit(
                launch,
                "cpu/multi_node.yaml",
                *arguments,
                options=[*meeting, "--machine_rank", rank],
            )
            for rank in "01"
        ]
    for machine in machines:
        machine.result()
    assert_trained(tmp_path / "out")


SRUN = """#!/usr/bin/env python3
import os, subprocess, sys
tasks = next(int(a.split("=")[1]) for a in sys.argv if a.startswith("--ntasks"))
command = sys.argv[1:]
while command[0].startswith("--"):
    del command[0]
env = lambda rank: os.environ | {"SLURM_PROCID": str(rank)}
processes = [subprocess.Popen(command, env=env(rank)) for rank in range(tasks)]
sys.exit(max(process.wait() for process in processes))
"""


@pytest.mark.slow
def test_the_slurm_script(tmp_path, port):
    """On three nodes that are this machine: Slurm's commands are stand-ins, and vLLM's only notes
    how it was called; the training is real.
    """
    stand_ins = {
        "srun": SRUN,
        "scontrol": "#!/bin/sh\necho 127.0.0.1; echo 127.0.0.1; echo 127.0.0.1\n",
        "vllm": f'#!/bin/sh\necho "$@" > {tmp_path}/vllm.txt\n',
    }
    for name, text in stand_ins.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(RECIPE))
    paths = [str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]]
    settings = {
        "PATH": os.pathsep.join(paths),
        "SLURM_JOB_NODELIST": "nodes[1-3]",
        "SLURM_JOB_NAME": "barl",
        "RECIPE": str(tmp_path / "recipe.yaml"),
        "MODEL": str(TINY_MODEL_DIR),
        "CONFIG": "accelerate_configs/cpu/ddp.yaml",
        "OUTPUT_DIR": str(tmp_path / "out"),
        "PROCESSES_PER_NODE": "1",
        "MASTER_PORT": port,
        "OMP_NUM_THREADS": "1",
    }
    script = ["bash", str(ROOT / "examples" / "multi_node.slurm"), "--save_steps", "1"]
    for more in ([], ["--max_steps", "3"]):  # started again, it resumes
        process = subprocess.run(
            [*script, *more],
            cwd=ROOT,
            env=os.environ | settings,
            timeout=240,
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, process.stderr
    assert_trained(tmp_path / "out")
    state = json.loads((tmp_path / "out" / "checkpoint-3" / "trainer_state.json").read_text())
    assert state["global_step"] == 3
    assert f"serve {TINY_MODEL_DIR}" in (tmp_path / "vllm.txt").read_text()
