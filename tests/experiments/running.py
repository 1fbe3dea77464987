"""`python -m experiments.…` as users start it, in a process."""

import os
import subprocess

from ..paths import ROOT
from ..preloaded import PRELOADED


def experiment(name, *options, columns=100):
    command = [*PRELOADED, f"experiments.{name}", *map(str, options)]
    environment = os.environ | {"COLUMNS": str(columns)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
