"""A finished run on CPUs ends: gloo's threads, DDP and Python's lock."""

import subprocess
import sys

import pytest

from ..paths import ROOT

SCRIPT = f"""
import faulthandler, sys
faulthandler.dump_traceback_later(200, exit=True)
sys.path.insert(0, {str(ROOT)!r})
sys.setswitchinterval(100)  # a thread of gloo's gets Python's lock where it is given up, only
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from barl_trl.commands.train import _process_group_outliving_ddp

def run():
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    model.trainer = [model]  # a cycle, as a trainer is in
    model(torch.ones(1, 4)).sum().backward()
    dist.all_gather_object([None, None], "finished")
    dist.destroy_process_group()

folder, rank = sys.argv[1:]
for n in range(40):
    store = f"file://{{folder}}/store{{n}}"
    dist.init_process_group("gloo", init_method=store, rank=int(rank), world_size=2)
    with _process_group_outliving_ddp():
        run()
"""


@pytest.mark.slow
def test_a_finished_run_ends(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    processes = [subprocess.Popen([*command, rank]) for rank in "01"]
    assert [process.wait() for process in processes] == [0, 0]
