"""A checkpoint is told from others of its name."""

import os
import shutil
import subprocess
from types import SimpleNamespace

import torch
from huggingface_hub import constants
from transformers import AutoModelForCausalLM

from barl_trl.evaluation.checkpoints import checkpoint_id, record_training


def test_other_weights_in_the_same_folder_are_another_checkpoint(model_path, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(model_path, folder)
    before = checkpoint_id(str(folder))
    assert before == checkpoint_id(model_path)  # a copy is the same
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        model.model.norm.weight[0] += 1e-3
    model.save_pretrained(folder)
    assert checkpoint_id(str(folder)) != before


def test_a_checkpoint_of_the_hub_is_its_commit(model_path, tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    commit, repository = "0123456789" * 4, tmp_path / "models--me--mine"
    shutil.copytree(model_path, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    assert checkpoint_id("me/mine") == commit
    earlier = commit[::-1]
    shutil.copytree(model_path, repository / "snapshots" / earlier)
    (repository / "refs" / "v1").write_text(earlier)
    assert checkpoint_id("me/mine", revision="v1") == earlier


def git(*command, folder="."):
    names = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    command = ["git", "-C", str(folder), *names, *command]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def noted_commit():
    tokenizer = SimpleNamespace(init_kwargs={})
    prompts = ("system_prompt", "prompt_template", "chat_template_kwargs")
    record_training(tokenizer, **dict.fromkeys(prompts))
    return tokenizer.init_kwargs["barl_trained_by"]["commit"]


def test_the_commit_of_training_says_whether_files_differ(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert noted_commit() is None
    git("init")
    assert noted_commit() is None
    (tmp_path / "train.py").write_text("1")
    git("add", ".")
    git("commit", "-m", "one")
    assert noted_commit() == git("rev-parse", "HEAD")
    os.utime(tmp_path / "train.py", (0, 0))
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
        (folder / ".gitattributes").write_text("*.py filter=a=b\n")
        (folder / "train.py").write_text("1")
        if folder is outer:
            git("submodule", "add", str(inner), "part", folder=folder)
        git("add", ".", folder=folder)
        git("commit", "-m", "one", folder=folder)
    for folder in (outer / "part", outer):
        for key in ("core.fsmonitor", "filter.a=b.clean", "filter.a=b.process", "diff.external"):
            git("config", key, str(trap), folder=folder)
        git("config", "filter.a=b.required", "true", folder=folder)
        os.utime(folder / "train.py", (0, 0))
    with (outer / ".git" / "config").open("a") as file:
        file.write('[filter "a\tb"]\n\tclean = cat\n')
    (outer / ".git" / "hooks" / "post-index-change").symlink_to(trap)
    monkeypatch.chdir(outer)
    assert noted_commit() == git("rev-parse", "HEAD")
    assert not ran.exists()
