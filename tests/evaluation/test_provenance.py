"""A checkpoint is told from others of its name, and a run says how it was made."""

import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from barl_trl.evaluation.provenance import checkpoint_id, record_training, run_record


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


def git(*command, folder="."):
    names = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    command = ["git", "-C", str(folder), *names, *command]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def noted_commit():
    tokenizer = SimpleNamespace(init_kwargs={})
    prompts = ("system_prompt", "prompt_template", "chat_template_kwargs")
    record_training(tokenizer, **dict.fromkeys(prompts))
    return tokenizer.init_kwargs["barl_trained_by"]["commit"]


def test_the_commit_of_training_says_whether_files_may_differ(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert noted_commit() is None
    git("init")
    assert noted_commit() is None
    (tmp_path / "train.py").write_text("1")
    git("add", ".")
    git("commit", "-m", "one")
    assert noted_commit() == git("rev-parse", "HEAD")
    (tmp_path / "train.py").write_text("2")
    assert noted_commit() == git("rev-parse", "HEAD") + "-dirty"


def test_no_program_of_a_repository_is_run(tmp_path, monkeypatch):
    """Not its monitor, nor its hooks and filters, nor those of a submodule."""
    trap, ran = tmp_path / "trap.sh", tmp_path / "ran"
    trap.write_text(f"#!/bin/sh\necho $0 $* >> {ran}\ncat\n")
    trap.chmod(0o755)
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    for folder in (inner, outer):
        folder.mkdir()
        git("init", folder=folder)
        (folder / ".gitattributes").write_text("*.py filter=a\n")
        (folder / "train.py").write_text("1")
        if folder is outer:
            git("submodule", "add", str(inner), "part", folder=folder)
        git("add", ".", folder=folder)
        git("commit", "-m", "one", folder=folder)
    for folder in (outer / "part", outer):
        for key in ("core.fsmonitor", "filter.a.clean", "filter.a.process", "diff.external"):
            git("config", key, str(trap), folder=folder)
        os.utime(folder / "train.py", (0, 0))
    for hook in ("post-index-change", "reference-transaction"):
        (outer / ".git" / "hooks" / hook).symlink_to(trap)
    monkeypatch.chdir(outer)
    assert noted_commit().startswith(git("rev-parse", "HEAD"))
    assert not ran.exists()
