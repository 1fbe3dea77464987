"""Scoring with sharded parameters: processes with different work, or none, wait for each other."""

import subprocess
import sys

import pytest

from .launching import ROOT

SCRIPT = """
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from barl_trl import Answer, Rollout, answer_log_likelihoods
from tests.tiny import tiny_model, tiny_tokenizer

dist.init_process_group("gloo")
tokenizer = tiny_tokenizer()
sharded, whole = tiny_model(tokenizer), tiny_model(tokenizer)
mesh = init_device_mesh("cpu", (2,))
for layer in sharded.model.layers:
    fully_shard(layer, mesh=mesh)
fully_shard(sharded, mesh=mesh)
ids = lambda n: torch.randint(5, 300, (n,), generator=torch.Generator().manual_seed(n)).tolist()
rollouts = [
    Rollout(ids(40 + i), [5, 20, 40], [Answer(ids(4), 1), Answer(ids(3), 1)]) for i in range(5)
]
own = rollouts if dist.get_rank() == 0 else []
for method in ("shared_prefix", "reencode"):
    for max_tokens in (100, 16384):
        options = {"elicitation_ids": [7, 8], "max_tokens": max_tokens, "method": method}
        got = answer_log_likelihoods(sharded, own, **options).answer_logps
        torch.testing.assert_close(got, answer_log_likelihoods(whole, own, **options).answer_logps)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("processes", [2])
def test_fsdp2_processes_call_the_model_equally_often(tmp_path, processes):
    (tmp_path / "script.py").write_text(f"import sys; sys.path.insert(0, {str(ROOT)!r})" + SCRIPT)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*launch, "--nproc_per_node", str(processes), str(tmp_path / "script.py")]
    subprocess.run(command, check=True, timeout=200)
