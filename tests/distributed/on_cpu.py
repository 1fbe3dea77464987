"""`SECONDS MODULE ...`: as `python -m` does, with DeepSpeed and FSDP2 on CPUs, and a deadline."""

import faulthandler
import importlib.util
import os
import runpy
import sys

from accelerate import state

original = state.PartialState.__init__


def prepare(self, *args, **kwargs):
    original(self, *args, **kwargs)
    is_fsdp = os.environ.get("ACCELERATE_USE_FSDP", "false") == "true"
    # accelerate shards what runs on several GPUs, and silently nothing on CPUs
    if is_fsdp and self.distributed_type == state.DistributedType.MULTI_CPU:
        self._shared_state["distributed_type"] = state.DistributedType.MULTI_GPU


if __name__ == "__main__":
    state.PartialState.__init__ = prepare
    if importlib.util.find_spec("deepspeed"):
        import deepspeed.ops
        from accelerate import accelerator
        from deepspeed.runtime import config

        # they would be compiled for minutes, and gloo and torch do the same
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        accelerator.map_pytorch_optim_to_deepspeed = lambda optimizer: optimizer
        config.get_zero_force_ds_cpu_optimizer = lambda _: False
    faulthandler.dump_traceback_later(float(sys.argv[1]), exit=True)
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
