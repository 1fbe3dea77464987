"""What vLLM's CPU build needs to train with TRL, which expects GPUs. Nothing of it is BARL's."""

import functools

import torch
import vllm.model_executor.layers.utils
from safetensors.torch import load_file, save_file
from trl.generation import vllm_generation
from trl.generation.vllm_client import VLLMClient

ENVIRONMENT = {
    # colocated, the engine must live in the trainer's process
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # processes share the cores
    "TORCHDYNAMO_DISABLE": "1",  # compiling takes a minute
    "VLLM_NO_USAGE_STATS": "1",
}

# Linear layers would be packed for the CPU and their weights removed: none could be loaded later.
vllm.model_executor.layers.utils.dispatch_cpu_unquantized_gemm = lambda layer, remove_weight: (
    setattr(layer, "cpu_linear", torch.nn.functional.linear)
)
# Eager, as compiling takes a minute; float32 as the trainer, so that rounding alone differs.
vllm_generation.LLM = functools.partial(vllm_generation.LLM, enforce_eager=True, dtype="float32")


class WorkerExtension:
    """What weights come by on a server without NCCL: a file."""

    def load_file(self, path: str) -> None:
        self.model_runner.model.load_weights(load_file(path).items())


def send_weights_by_file(path: str) -> None:
    def update_named_params(self, metadata, named_params):
        save_file({name: weights.clone() for name, weights in named_params}, path)
        call = {"method": "load_file", "args": [path]}
        self._post(f"{self.base_url}/collective_rpc", json=call)

    VLLMClient.init_communicator = lambda self, device: None
    VLLMClient.update_named_params = update_named_params
