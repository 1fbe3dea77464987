"""The record of a run: machine and command."""

import os
import platform
from datetime import UTC, datetime, timedelta

import psutil
import pytest
import torch

from barl_trl.evaluation.generation.backends import Decoding, TransformersBackend
from barl_trl.evaluation.generation.decoding import Drawing
from barl_trl.evaluation.provenance import run_record


def test_the_record_says_when_how_and_where(model_path, tokenizer):
    decoding = Decoding([tokenizer.eos_token_id], 9, Drawing(), batch_size=3)
    backend = TransformersBackend(model_path, decoding, attn_implementation="eager")
    argv = ["barl", "evaluate", "--model_init_kwargs", '{"token": "hf_canary"}']
    record = run_record(argv, backend.describe())
    age = datetime.now(UTC) - datetime.fromisoformat(record["date"])
    assert timedelta(0) <= age < timedelta(minutes=5)
    assert record["command"] == """barl evaluate --model_init_kwargs '{"token": "<SECRET>"}'"""
    assert (record["dtype"], record["attention"], record["batch_size"]) == ("float32", "eager", 3)
    assert record["python"] == platform.python_version()
    found = record["hardware"]
    assert found["cores"] == len(os.sched_getaffinity(0))
    assert found["memory_gib"] == pytest.approx(psutil.virtual_memory().total / 2**30, abs=0.06)
    assert len(found["gpus"]) == torch.cuda.device_count()
    assert found["cuda"] == (torch.version.cuda or torch.version.hip)
    with open("/proc/cpuinfo") as file:
        assert found["cpu"] in file.read()
