"""Scoring with sharded parameters: processes with different work, or none, wait for each other."""

import subprocess

import pytest

from ..paths import ROOT
from ..preloaded import PRELOADED


@pytest.mark.parametrize(
    ("kind", "scale"),
    [
        pytest.param("fsdp2", 1.0, marks=pytest.mark.slow),
        ("fsdp2", 0.5),
        pytest.param("fsdp1", 1.0, marks=pytest.mark.slow),
    ],
)
def test_processes_call_a_sharded_model_equally_often_and_halve_alike(kind, scale):
    launch = [*PRELOADED, "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    script = ["--no-python", *PRELOADED, "tests.distributed.sharded", kind, str(scale)]
    subprocess.run([*launch, *script], cwd=ROOT, check=True, timeout=200)
