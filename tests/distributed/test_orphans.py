"""Processes whose launcher was killed do not train on, unseen."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from barl_trl.synthetic.search import TINY_MODEL_DIR

from ..paths import ROOT

TRAIN = ["train", "--config", "demo-search", "--model_name_or_path", str(TINY_MODEL_DIR)]
TRAIN += ["--dataset_name", str(ROOT / "examples" / "search.jsonl"), "--step_size", "12"]
TRAIN += ["--prompt_template", "{problem}\n", "--max_steps", "1000", "--num_generations", "2"]
TRAIN += ["--per_device_train_batch_size", "2", "--max_completion_length", "8"]


@pytest.mark.slow
@pytest.mark.parametrize("is_saved", ["true", "false"])
def test_they_end_at_the_next_step(tmp_path, is_saved):
    barl, out = str(Path(sys.executable).with_name("barl")), tmp_path / "out"
    command = [barl, *TRAIN, "--output_dir", str(out), "--save_on_interrupt", is_saved]
    command += ["--accelerate_config", "cpu/ddp", "--num_processes", "2"]
    log = tmp_path / "log"
    with log.open("w") as file:
        launcher = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    while not [*out.glob("beliefs/rollouts_00002*.parquet")]:  # it trains
        assert launcher.poll() is None, log.read_text()
        time.sleep(0.2)
    family = psutil.Process(launcher.pid).children(recursive=True)  # ranks, graders
    assert len(family) > 2
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    _, alive = psutil.wait_procs(family, timeout=60)
    for process in alive:
        process.kill()
    assert not alive, log.read_text()
    assert bool([*out.glob("checkpoint-*")]) == (is_saved == "true")
