"""`barl evaluate` with a vLLM that does not compile, in float32 as the model."""

import sys
from functools import partial

from barl_trl import cli
from barl_trl.evaluation.generation import BACKENDS, VLLMBackend

if __name__ == "__main__":
    BACKENDS["vllm"] = partial(VLLMBackend, enforce_eager=True, dtype="float32", max_model_len=512)
    cli.main(["evaluate", *sys.argv[1:]])
