"""`barl analyze` as users start it, in a process."""

import json
import os
import subprocess

from ..preloaded import PRELOADED


def analyze(*options, columns=100):
    command = [*PRELOADED, "barl_trl.cli", "analyze", *map(str, options)]
    environment = os.environ | {"COLUMNS": str(columns)}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def results(path):
    return json.loads(path.read_text())
