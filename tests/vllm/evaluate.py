"""Runs on its own: `barl evaluate` with what vLLM's CPU build needs to take weights."""

import sys

from barl_trl.commands.evaluate import run
from tests.vllm import cpu  # noqa: F401

if __name__ == "__main__":
    run(sys.argv[1:])
