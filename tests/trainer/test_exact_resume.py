"""A run that is killed and resumed reaches the parameters of an undisturbed one."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from barl_trl.trainer.checkpoints.files import checkpoint_to_resume
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import TrainerCallback

from barl_trl import cli
from barl_trl.trainer.records import FOLDER, record_files

from ..distributed.launching import launch
from ..paths import ROOT
from ..preloaded import PRELOADED
from ..tiny import tiny_model
from .rollouts import config, trainer

# 2 prompts x 4 rollouts are trained on in 4 steps; of 5 problems, an epoch takes 4. Checkpoints 5
# and 10 lie in the middle of rollout batches, the latter in the second epoch.
SETTINGS = {
    "use_cpu": True,
    "bf16": False,
    "per_device_train_batch_size": 2,
    "steps_per_generation": 4,
    "num_generations": 4,
    "max_completion_length": 16,
    "step_size": 8,
    "max_steps": 14,
    "save_steps": 5,
    "learning_rate": 1.0e-2,
    "lr_scheduler_type": "linear",
    "logging_steps": 3,
    "log_completions": True,
    "log_beliefs": True,
    "disable_tqdm": True,
    "reward_funcs": ["accuracy_reward", "tests.trainer.test_exact_resume.killed"],
}


def killed(prompts, trainer_state, **_):
    """A reward that kills its process at a step, and takes notes of the prompts."""
    with open(os.environ["NOTES"], "a") as notes:
        print(json.dumps([trainer_state.global_step, *map(str, prompts)]), file=notes)
    if trainer_state.global_step == int(os.environ.get("KILLED_AT", -1)):
        os.kill(os.getpid(), signal.SIGKILL)
    return [0.0] * len(prompts)


@pytest.fixture
def train(tmp_path, model_path, monkeypatch):
    """Runs `barl train` and returns its parameters, its log, and the prompts of its rollouts."""
    problems = tmp_path / "problems.jsonl"
    problems.write_text(
        "\n".join(json.dumps({"problem": f"{n}+{n}?", "answer": str(2 * n)}) for n in range(5))
    )

    def run(name, *options, killed_at=-1, launcher=None, **settings):
        folder, notes = tmp_path / name, tmp_path / f"{name}.notes"
        recipe = tmp_path / f"{name}.yaml"
        places = {
            "model_name_or_path": model_path,
            "dataset_name": str(problems),
            "output_dir": str(folder),
        }
        recipe.write_text(yaml.safe_dump(SETTINGS | places | settings))
        monkeypatch.setenv("NOTES", str(notes))
        monkeypatch.setenv("KILLED_AT", str(killed_at))
        command = ["barl_trl.cli", "train", "--config", str(recipe), *options]
        if launcher:
            launcher(*command, is_killed=killed_at >= 0)
        elif killed_at >= 0:
            process = subprocess.run([*PRELOADED, *command], cwd=ROOT, timeout=200)
            assert process.returncode == -signal.SIGKILL
        else:
            cli.main(command[1:])
        return folder

    return run


def parameters(folder):
    return load_file(folder / "model.safetensors")


def prompts(tmp_path, name):
    return [json.loads(line) for line in (tmp_path / f"{name}.notes").read_text().splitlines()]


def history(folder):
    state = json.loads((folder / "checkpoint-14" / "trainer_state.json").read_text())
    return steady(state["log_history"])


def steady(history):
    """The logs of steps, without what differs from run to run."""
    # transformers averages the loss over the steps since the log or the start
    others = ("seconds", "time", "runtime", "loss")
    return [
        {
            name: value
            for name, value in log.items()
            if not any(part in name for part in others) and value is not None
        }
        for log in history
        if "loss" in log
    ]


def recorded(folder):
    """Its rollouts, by the steps that were done before."""
    return [
        (step, path.name, pq.read_table(path).to_pylist())
        for step, path in record_files(folder / FOLDER)
    ]


def test_killed_in_the_middle_of_a_rollout_batch(tmp_path, train):
    whole = train("whole")
    train("broken", killed_at=12)
    assert sorted(path.name for path in (tmp_path / "broken").glob("checkpoint-*")) == [
        "checkpoint-10",
        "checkpoint-5",
    ]
    resumed = train("broken", "--resume_from_checkpoint", "true")
    expected = parameters(whole)
    for name, value in parameters(resumed).items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=0)
    for log, undisturbed in zip(history(resumed), history(whole), strict=True):
        assert log == pytest.approx(undisturbed, rel=1e-6, nan_ok=True)
    # step 12 is generated for twice: the first time its process is killed
    steps = prompts(tmp_path, "broken")
    assert [step for step, *_ in steps] == [0, 4, 8, 12, 12]
    assert [steps[k] for k in (0, 1, 2, 4)] == prompts(tmp_path, "whole")
    # nor is a rollout recorded twice
    assert [step for step, *_ in recorded(resumed)] == [0, 4, 8, 12]
    np.testing.assert_equal(recorded(resumed), recorded(whole))


def test_a_run_that_is_at_its_end_is_not_trained_on(tmp_path, train):
    settings = {"max_steps": 6, "lr_scheduler_type": "constant"}
    ended = parameters(train("run", **settings))
    for _ in range(2):
        again = parameters(train("run", "--resume_from_checkpoint", "auto", **settings))
        for name, value in again.items():
            torch.testing.assert_close(value, ended[name], rtol=0, atol=0)
    assert not (tmp_path / "run" / "checkpoint-7").exists()
    assert [step for step, *_ in prompts(tmp_path, "run")] == [0, 4]


@pytest.mark.slow
@pytest.mark.parametrize(
    "config", ["cpu/ddp.yaml", "cpu/zero2.yaml", "cpu/zero3.yaml", "cpu/fsdp2.yaml"]
)
def test_killed_on_two_processes(tmp_path, train, config):
    """With DDP it is killed; the others go on from what an undisturbed run left at step 10."""
    options = {"per_device_train_batch_size": 1, "log_completions": False}
    if "zero" not in config:  # with a reference that moves
        options |= {"beta": 0.1, "sync_ref_model": True, "ref_model_sync_steps": 3}
    options["launcher"] = partial(launch, config)
    whole = train("whole", **options)
    if is_killed := "ddp" in config:
        train("broken", killed_at=12, **options)
    else:
        broken = shutil.copytree(whole, tmp_path / "broken")
        shutil.rmtree(broken / "checkpoint-14")
        (broken / "model.safetensors").unlink()
    resumed = train("broken", "--resume_from_checkpoint", "true", **options)
    expected = parameters(whole)
    for name, value in parameters(resumed).items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-6)
    for log, undisturbed in zip(history(resumed), history(whole), strict=True):
        assert log == pytest.approx(undisturbed, rel=1e-4, abs=1e-6)
    # each process notes its own, and one may be killed before it does
    noted = [{str(note) for note in prompts(tmp_path, name)} for name in ("broken", "whole")]
    assert noted[0] == noted[1] if is_killed else noted[0] == {n for n in noted[1] if "[12" in n}


def test_rollouts_that_were_trained_on_wholly_are_not_kept(tmp_path, train):
    folder = train("run", max_steps=8, save_steps=4)
    sizes = [
        torch.load(folder / checkpoint / "rollouts_0_of_1.pt", weights_only=True)["rollouts"]
        for checkpoint in ("checkpoint-4", "checkpoint-8")
    ]
    assert sizes == [None, None]


def short_run(folder, model_path, tokenizer, resume_from_checkpoint=None, **settings):
    """Trains for three optimizer steps on given rollouts, in the middle of whose second batch a
    checkpoint lies; returns the trainer.
    """
    args = config(
        folder,
        per_device_train_batch_size=4,
        steps_per_generation=2,
        max_steps=4,
        save_strategy="steps",
        learning_rate=1e-2,
        **{"save_steps": 3} | settings,
    )
    run = trainer(model_path, tokenizer, args)
    run.train(resume_from_checkpoint)
    return run


def assert_equal(model, other):
    for value, expected in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(value, expected, rtol=0, atol=0)


def interruption(count):
    """What ends in Ctrl-C when it is called for the `count`th time, by a callback or a reward."""

    def call(*_, completions=(), **__):
        counter.append(1)
        if len(counter) == count:
            raise KeyboardInterrupt
        return [float(len(text)) for text in completions] or None

    counter = []
    return call


@pytest.mark.parametrize(
    ("event", "count"), [("on_substep_end", 2), ("on_step_end", 1), ("reward", 2)]
)
def test_training_that_was_interrupted_begins_anew(event, count, tmp_path, model, tokenizer):
    """In the middle of an optimizer step, in that of a rollout batch, and in the next one."""

    def made(model, reward, **callback):
        args = config(
            tmp_path,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
            steps_per_generation=4,
            max_steps=3,
            learning_rate=1e-2,
            optim="sgd",  # whose state another `train` does not find
        )
        run = trainer(model, tokenizer, args, reward_funcs=["accuracy_reward", reward])
        run.add_callback(type("Interrupting", (TrainerCallback,), callback))
        return run

    def logs(run):
        torch.manual_seed(0)  # TRL shuffles rollouts
        run.train()
        return steady(run.state.log_history)

    calls = {"reward": interruption(0), event: interruption(count)}
    run = made(model, **calls)
    with pytest.raises(KeyboardInterrupt):
        run.train()
    other = tiny_model(tokenizer)
    other.load_state_dict(run.model.state_dict())
    fresh = made(other, reward=interruption(0))
    for log, expected in zip(logs(run), logs(fresh), strict=True):
        assert log == pytest.approx(expected, rel=1e-6, nan_ok=True)
    assert_equal(run.model, other)


def interrupted_at(step, name):
    """A `torch.save` or `json.dump` during which the run ends."""

    def save(content, file, *args, **kwargs):
        path = Path(getattr(file, "name", file))
        if path.parts[-2:] == (f"checkpoint-{step}", name):
            raise KeyboardInterrupt
        return original(content, file, *args, **kwargs)

    original = torch.save if name.endswith(".pt") else json.dump
    return save


def test_a_kill_behind_trainer_state_loses_no_adaptive_entropy(
    tmp_path, model_path, tokenizer, monkeypatch
):
    """In the file of the controller, and before it."""
    settings = {"use_adaptive_entropy": True, "entropy_target": 9.0}
    settings |= {"save_total_limit": 1, "save_steps": 1}
    whole = short_run(tmp_path / "whole", model_path, tokenizer, **settings)
    monkeypatch.setattr(json, "dump", interrupted_at(2, "entropy_ctrl_state.json"))
    with pytest.raises(KeyboardInterrupt):
        short_run(tmp_path / "broken", model_path, tokenizer, **settings)
    monkeypatch.undo()
    checkpoint = tmp_path / "broken" / "checkpoint-2"
    assert (checkpoint / "trainer_state.json").exists()
    assert (checkpoint / "entropy_ctrl_state.json").stat().st_size == 0
    before = shutil.copytree(tmp_path / "broken", tmp_path / "before")
    (before / "checkpoint-2" / "entropy_ctrl_state.json").unlink()
    for folder in (tmp_path / "broken", before):
        resumed = short_run(folder, model_path, tokenizer, "true", **settings)
        assert resumed.entropy_coef == whole.entropy_coef != whole.args.entropy_coef
        assert_equal(resumed.model, whole.model)


def test_a_checkpoint_that_is_written_again_is_not_complete_meanwhile(
    tmp_path, model_path, tokenizer, monkeypatch
):
    short_run(tmp_path, model_path, tokenizer, save_steps=1)
    monkeypatch.setattr(torch, "save", interrupted_at(3, "optimizer.pt"))
    with pytest.raises(KeyboardInterrupt):
        short_run(tmp_path, model_path, tokenizer, str(tmp_path / "checkpoint-2"), save_steps=1)
    assert (tmp_path / "checkpoint-3" / "optimizer.pt").exists()  # the earlier run's
    shutil.rmtree(tmp_path / "checkpoint-4")
    assert checkpoint_to_resume("true", config(tmp_path)) == str(tmp_path / "checkpoint-2")


def test_a_checkpoint_that_cannot_be_written_says_what_is_free(tmp_path, model_path, tokenizer):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))  # as where a disk is full
    try:
        with pytest.raises((OSError, RuntimeError, SafetensorError)) as caught:
            short_run(tmp_path, model_path, tokenizer)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    [note] = caught.value.__notes__
    assert re.fullmatch(rf"{tmp_path}/checkpoint-3 is incomplete; \d+ MiB are free in .*", note)
    assert checkpoint_to_resume("auto", config(tmp_path)) is None
