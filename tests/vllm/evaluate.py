"""Runs on its own: `barl evaluate` with what vLLM's CPU build needs to take weights."""

import sys

from barl_trl import cli
from tests.vllm import cpu  # noqa: F401

if __name__ == "__main__":
    cli.main(["evaluate", *sys.argv[1:]])
