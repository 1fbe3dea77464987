"""`accelerate launch` with the CPU twins of the shipped configurations."""

import os
import subprocess
import sys

from ..paths import ROOT

LAUNCH = [sys.executable, "-m", "accelerate.commands.launch", "--main_process_port", "0"]


def launch(config, module, *arguments, deadline=240, is_killed=False, options=()):
    """Runs a module on the processes of a configuration; it hangs if it takes to the deadline.

    Then every process prints where it is, and ends.
    """
    command = [*LAUNCH, "--config_file", str(ROOT / "accelerate_configs" / config)]
    command += options
    command += ["-m", "tests.distributed.on_cpu", str(deadline), module, *arguments]
    for _ in range(3):
        process = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
            capture_output=True,
            text=True,
            timeout=deadline + 60,
        )
        # torch's gloo threads now and then abort a process that has done all of its work
        if "terminate called without an active exception" not in process.stderr:
            break
    assert (process.returncode != 0) == is_killed, process.stderr
