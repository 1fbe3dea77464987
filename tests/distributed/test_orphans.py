"""Processes whose launcher was killed do not train on, unseen."""

import json
import signal
import subprocess
import sys
import time

import psutil
import pytest

from ..paths import ROOT
from .launching import LAUNCH


@pytest.mark.slow
@pytest.mark.parametrize("is_saved", [True, False])
def test_they_end_at_the_next_step(tmp_path, is_saved):
    settings = {"folder": str(tmp_path / "out"), "is_saved": is_saved, "save_strategy": "no"}
    settings |= {"max_steps": 5000, "per_device_train_batch_size": 1}
    config = ["--config_file", str(ROOT / "accelerate_configs" / "cpu" / "ddp.yaml")]
    command = [sys.executable, "-m", *LAUNCH, *config, "-m", "tests.trainer.resume_worker"]
    log = tmp_path / "log"
    with log.open("w") as file:
        launcher = subprocess.Popen(
            [*command, json.dumps(settings)], cwd=ROOT, stdout=file, stderr=subprocess.STDOUT
        )
    while "'loss'" not in log.read_text():  # it trains
        assert launcher.poll() is None, log.read_text()
        time.sleep(0.2)
    family = psutil.Process(launcher.pid).children(recursive=True)  # ranks, graders
    assert len(family) >= 2
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    _, alive = psutil.wait_procs(family, timeout=60)
    for process in alive:
        process.kill()
    assert not alive, log.read_text()
    assert bool([*(tmp_path / "out").glob("checkpoint-*")]) == is_saved
