"""The shipped accelerate configurations, started on CPUs."""

import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ..paths import ROOT
from ..preloaded import PRELOADED
from .launching import launch

CONFIGS = ROOT / "accelerate_configs"
ON_CPUS = ["--mixed_precision", "no"]


@pytest.mark.parametrize("twin", sorted((CONFIGS / "cpu").iterdir()), ids=lambda path: path.name)
def test_twins_differ_in_processes_and_precision_only(twin):
    config = yaml.safe_load((CONFIGS / twin.name).read_text())
    config |= {"num_processes": 2, "mixed_precision": "no"}
    assert yaml.safe_load(twin.read_text()) == config


def assert_trained(folder):
    assert (folder / "model.safetensors").exists()
    state = json.loads((folder / "checkpoint-2" / "trainer_state.json").read_text())
    assert state["log_history"][0]["barl/hypotheses_per_prompt"] >= 1


# the others: tests/trainer/test_exact_resume.py
@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "options"),
    [
        ("cpu/zero1.yaml", []),
        ("zero3_offload.yaml", ["--num_processes", "2", *ON_CPUS]),
        ("single_gpu.yaml", ON_CPUS),
    ],
)
def test_barl_train_starts(tmp_path, recipe, config, options):
    command = ["barl_trl", "train", "--config", recipe()]
    launch(config, *command, options=options, deadline=900)
    assert_trained(tmp_path / "out")


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


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


# as `accelerate launch OPTIONS -m MODULE ...`, in processes that start at once
ACCELERATE = f"""#!/bin/bash
options=()
while [[ $2 != -m ]]; do options+=("$2"); shift; done
preloaded=({shlex.join(PRELOADED)})
exec "${{preloaded[@]}}" accelerate.commands.launch "${{options[@]}}" \\
  --no_python "${{preloaded[@]}}" "${{@:3}}"
"""


@pytest.mark.slow
def test_the_slurm_script(tmp_path, recipe, model_path, port):
    """On three nodes that are this machine: Slurm's commands are stand-ins, and vLLM's only notes
    how it was called; the training is real.
    """
    stand_ins = {
        "accelerate": ACCELERATE,
        "srun": SRUN,
        "scontrol": "#!/bin/sh\necho 127.0.0.1; echo 127.0.0.1; echo 127.0.0.1\n",
        "vllm": f'#!/bin/sh\necho "$@" > {tmp_path}/vllm.txt\n',
    }
    for name, text in stand_ins.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    paths = [str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]]
    settings = {"SLURM_JOB_NODELIST": "nodes[1-3]", "SLURM_JOB_NAME": "barl"}
    settings |= {"RECIPE": recipe(), "MODEL": model_path, "OUTPUT_DIR": str(tmp_path / "out")}
    settings |= {"CONFIG": "accelerate_configs/cpu/ddp.yaml", "PROCESSES_PER_NODE": "1"}
    settings |= {"PATH": os.pathsep.join(paths), "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    script = ["bash", str(ROOT / "examples" / "multi_node.slurm")]
    for more in ([], ["--max_steps", "3"]):  # started again, it resumes
        options = {"cwd": ROOT, "env": os.environ | settings, "timeout": 240}
        process = subprocess.run([*script, *more], capture_output=True, text=True, **options)
        assert process.returncode == 0, process.stderr
    assert_trained(tmp_path / "out")
    state = json.loads((tmp_path / "out" / "checkpoint-3" / "trainer_state.json").read_text())
    assert state["global_step"] == 3
    assert f"serve {model_path}" in (tmp_path / "vllm.txt").read_text()
