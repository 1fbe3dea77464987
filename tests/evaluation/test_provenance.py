"""A checkpoint is told from others of its name, and a run says how it was made."""

import os
import platform
import shutil
from datetime import UTC, datetime, timedelta

import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from barl_trl.evaluation.provenance import checkpoint_id, run_record


def test_other_weights_in_the_same_folder_are_another_checkpoint(model_path, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(model_path, folder)
    before = checkpoint_id(str(folder))
    assert before == checkpoint_id(model_path)  # a copy is the same
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"][0] += 1e-3
    save_file(weights, folder / "model.safetensors")
    assert checkpoint_id(str(folder)) != before


def test_a_checkpoint_of_the_hub_is_its_commit(model_path, tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    commits, repository = {"main": "0123456789" * 4, "v1": "9876543210" * 4}, "models--me--mine"
    (tmp_path / repository / "refs").mkdir(parents=True)
    for name, commit in commits.items():
        shutil.copytree(model_path, tmp_path / repository / "snapshots" / commit)
        (tmp_path / repository / "refs" / name).write_text(commit)
    assert checkpoint_id("me/mine") == commits["main"]
    assert checkpoint_id("me/mine", revision="v1") == commits["v1"]


def test_the_record_says_when_how_and_where():
    argv = ["barl", "evaluate", "--model_init_kwargs", '{"token": "hf_canary"}']
    record = run_record(argv, {"dtype": "float32"})
    age = datetime.now(UTC) - datetime.fromisoformat(record["date"])
    assert timedelta(0) <= age < timedelta(minutes=5)
    assert "canary" not in record["command"] and record["dtype"] == "float32"
    assert record["python"] == platform.python_version()
    found = record["hardware"]
    assert found["cores"] == len(os.sched_getaffinity(0))
    assert found["memory_gib"] > 0.1 and len(found["gpus"]) == torch.cuda.device_count()
