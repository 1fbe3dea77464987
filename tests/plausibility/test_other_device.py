"""On a device other than the CPU, as far as that can be known without one."""

import subprocess
import sys

import pytest

from ..paths import ROOT


@pytest.mark.slow
def test_no_tensor_of_a_device_meets_one_of_the_cpu(tmp_path):
    command = [sys.executable, "-m", "tests.plausibility.other_device", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=300)
