"""Scoring with sharded parameters: processes with different work, or none, wait for each other."""

import subprocess
import sys

import pytest

from ..paths import ROOT

SCRIPT = """
import os, psutil, torch, torch.distributed as dist
from functools import partial
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
from transformers import Qwen2ForCausalLM
from barl_trl import Answer, Rollout, answer_log_likelihoods
from barl_trl.plausibility import forward
from tests.tiny import tiny_model, tiny_tokenizer

class Scaling(Qwen2ForCausalLM):  # which its description does not say
    def forward(self, *args, position_ids=None, **kwargs):
        output = super().forward(*args, position_ids=position_ids, **kwargs)
        output.logits = output.logits * SCALE
        return output

dist.init_process_group("gloo")
forward.HEAD_TILE = 16
tokenizer = tiny_tokenizer()
sharded, whole = tiny_model(tokenizer), tiny_model(tokenizer)
sharded.__class__ = whole.__class__ = Scaling
mesh = init_device_mesh("cpu", (2,))
if KIND == "fsdp2":
    for layer in sharded.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
else:  # the head is a unit of its own
    policy = partial(size_based_auto_wrap_policy, min_num_params=2000)
    cpu = torch.device("cpu")
    sharded = FullyShardedDataParallel(sharded, auto_wrap_policy=policy, device_id=cpu)
    assert isinstance(sharded.module.lm_head, FullyShardedDataParallel)
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
# by its description, rank 1's model takes six times the memory that one process may use
available = psutil.virtual_memory().available
if dist.get_rank() == 1:
    sharded.config.intermediate_size = available // (16384 * 4)
got = answer_log_likelihoods(sharded, own, **options)
assert got.max_tokens == 16384 // 8, got.max_tokens
dist.barrier()
os._exit(0)  # gloo's threads may abort a process that ends by itself
"""


@pytest.mark.parametrize(("kind", "scale"), [("fsdp2", 1.0), ("fsdp2", 0.5), ("fsdp1", 1.0)])
def test_processes_call_a_sharded_model_equally_often_and_halve_alike(tmp_path, kind, scale):
    settings = f"import sys; sys.path.insert(0, {str(ROOT)!r}); KIND = {kind!r}; SCALE = {scale}\n"
    (tmp_path / "script.py").write_text(settings + SCRIPT)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*launch, "--nproc_per_node", "2", str(tmp_path / "script.py")]
    subprocess.run(command, check=True, timeout=200)
