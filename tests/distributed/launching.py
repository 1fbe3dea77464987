"""`accelerate launch` with the CPU twins of the shipped configurations."""

import os
import subprocess

from ..paths import ROOT
from ..preloaded import PRELOADED

LAUNCH = ["accelerate.commands.launch", "--main_process_port", "0"]


def launch(config, module, *arguments, deadline=240, is_killed=False, options=(), python=PRELOADED):
    """Runs a module on the processes of a configuration, and returns what they printed.

    It hangs if it takes to the deadline: then every process prints where it is, and ends.
    """
    config_file = str(ROOT / "accelerate_configs" / config)
    command = [*python, *LAUNCH, "--config_file", config_file, *options]
    command += ["--no_python", *python, "tests.distributed.on_cpu", str(deadline)]
    command += [module, *arguments]
    for _ in range(3):
        where = {"cwd": ROOT, "env": os.environ | {"PYTHONWARNINGS": "ignore"}}
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=deadline + 60, **where
        )
        # torch's gloo threads now and then abort a process that has done all of its work
        if "terminate called without an active exception" not in process.stderr:
            break
    assert (process.returncode != 0) == is_killed, process.stderr
    return process
