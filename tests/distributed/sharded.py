"""`KIND SCALE`, on each of two processes: scores with a sharded model, and with a whole one."""

import os
import sys
from functools import partial

import psutil
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
from transformers import Qwen2ForCausalLM

from barl_trl import Answer, Rollout, answer_log_likelihoods
from barl_trl.plausibility import forward
from tests.tiny import tiny_model, tiny_tokenizer


def scaling(scale: float) -> type[Qwen2ForCausalLM]:
    class Scaling(Qwen2ForCausalLM):  # which its configuration does not say
        def forward(self, *args, position_ids=None, **kwargs):
            output = super().forward(*args, position_ids=position_ids, **kwargs)
            output.logits = output.logits * scale
            return output

    return Scaling


def shard(model, kind: str):
    if kind == "fsdp2":
        mesh = init_device_mesh("cpu", (2,))
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)
    # the head is a unit of its own
    policy = partial(size_based_auto_wrap_policy, min_num_params=2000)
    model = FullyShardedDataParallel(model, auto_wrap_policy=policy, device_id=torch.device("cpu"))
    assert isinstance(model.module.lm_head, FullyShardedDataParallel)
    return model


def ids(count: int) -> list[int]:
    generator = torch.Generator().manual_seed(count)
    return torch.randint(5, 300, (count,), generator=generator).tolist()


def main(kind: str, scale: float) -> None:
    dist.init_process_group("gloo")
    forward.HEAD_TILE = 16
    tokenizer = tiny_tokenizer()
    sharded, whole = tiny_model(tokenizer), tiny_model(tokenizer)
    sharded.__class__ = whole.__class__ = scaling(scale)
    sharded = shard(sharded, kind)
    answers = [Answer(ids(4), 1), Answer(ids(3), 1)]
    rollouts = [Rollout(ids(40 + i), [5, 20, 40], answers) for i in range(5)]
    own = rollouts if dist.get_rank() == 0 else []
    for method in ("shared_prefix", "reencode"):
        for max_tokens in (100, 16384):
            options = {"elicitation_ids": [7, 8], "max_tokens": max_tokens, "method": method}
            got = answer_log_likelihoods(sharded, own, **options).answer_logps
            expected = answer_log_likelihoods(whole, own, **options).answer_logps
            torch.testing.assert_close(got, expected)
    # by its configuration, rank 1's model takes six times the memory that one process may use
    if dist.get_rank() == 1:
        available = psutil.virtual_memory().available
        sharded.config.intermediate_size = available // (16384 * 4)
    scored = answer_log_likelihoods(sharded, own, **options)
    assert scored.max_tokens == 16384 // 8, scored.max_tokens
    dist.barrier()
    os._exit(0)  # gloo's threads may abort a process that ends by itself


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
