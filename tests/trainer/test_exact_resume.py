"""A run that is killed and resumed reaches the parameters of an undisturbed one, to the bit."""

import json
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest
import torch
from transformers import TrainerCallback

from barl_trl.trainer.resume import last_checkpoint

from ..distributed.launching import launch
from ..paths import ROOT
from ..preloaded import PRELOADED
from .resume_worker import made, train


def assert_equal(model, other, **tolerances):
    states = [getattr(one, "state_dict", lambda one=one: one)() for one in (model, other)]
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        torch.testing.assert_close(value, states[1][name], **{"rtol": 0, "atol": 0} | tolerances)


def steps(folder):
    return sorted(int(path.name[11:]) for path in folder.glob("checkpoint-*"))


def run(folder, **settings):
    """Trains in a process of its own, which may kill itself behind a step, before it saves."""
    text = json.dumps({"folder": str(folder)} | settings)
    command = [*PRELOADED, "tests.trainer.resume_worker", text]
    done = subprocess.run(command, cwd=ROOT, timeout=200, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL * ("killed_at" in settings), done.stderr
    return None if "killed_at" in settings else torch.load(folder / "parameters.pt")


def rewards(folder):
    state = json.loads((folder / "checkpoint-18" / "trainer_state.json").read_text())
    return [log["reward"] for log in state["log_history"] if "reward" in log]


@pytest.mark.parametrize("kind", ["text", "agent"])
def test_killed_and_resumed(tmp_path, kind):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    undisturbed = run(whole, kind=kind)
    # saved every 3 steps, but behind rollout batches; and at the end
    assert steps(whole) == [4, 8, 12, 16, 18]
    run(broken, kind=kind, killed_at=15)
    assert steps(broken) == [4, 8, 12]
    assert_equal(run(broken, kind=kind, resume="true"), undisturbed)
    assert rewards(broken) == rewards(whole) and len(rewards(whole)) == 5


class Interrupted(TrainerCallback):
    """What ends in Ctrl-C behind a step."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.step:
            raise KeyboardInterrupt


MOVING = {"beta": 0.5, "sync_ref_model": True, "ref_model_sync_steps": 3}


@pytest.mark.parametrize(
    ("settings", "saved"),
    [
        # optimizer steps do not divide rollout batches, but for the third, smaller one of an epoch
        ({"gradient_accumulation_steps": 3, "max_steps": 8, "save_steps": 2}, [3, 6]),
        ({"num_iterations": 2, "gradient_accumulation_steps": 2, **MOVING}, [4, 8]),
        ({"use_adaptive_entropy": True, "entropy_target": 9.0}, [4, 8]),
        ({"is_lora": True}, [4, 8]),
        ({"save_strategy": "epoch", "shuffle_dataset": False}, [8]),
    ],
    ids=["uneven_steps", "iterations_moving_reference", "entropy", "lora", "epochs"],
)
def test_interrupted_and_resumed(tmp_path, model_path, settings, saved):
    if "beta" in settings:  # whose reference is loaded
        settings = settings | {"model_path": model_path}
    whole = train(tmp_path / "whole", **settings)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "broken", callback=Interrupted(saved[-1] + 1), **settings)
    assert steps(tmp_path / "broken") == saved
    resumed = train(tmp_path / "broken", resume=True, **settings)
    assert_equal(resumed.model, whole.model)
    if "beta" in settings:
        assert_equal(resumed.ref_model, whole.ref_model)
    if "entropy_target" in settings:
        assert resumed.entropy_coef == whole.entropy_coef != whole.args.entropy_coef


@pytest.mark.slow
@pytest.mark.parametrize("config", ["ddp", "zero2", "zero3", "fsdp2"])
def test_killed_on_two_processes(tmp_path, model_path, config):
    """With DDP it is killed; the others go on from what an undisturbed run left at step 8."""
    settings = {"per_device_train_batch_size": 1, "model_path": model_path}
    settings |= {} if "zero" in config else MOVING
    launched = partial(launch, f"cpu/{config}.yaml", "tests.trainer.resume_worker")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    launched(json.dumps({"folder": str(whole)} | settings))
    if config == "ddp":
        text = json.dumps({"folder": str(broken), "killed_at": 10} | settings)
        launched(text, is_killed=True)
    else:
        shutil.copytree(whole, broken)
        for step in (12, 16, 18):
            shutil.rmtree(broken / f"checkpoint-{step}")
    launched(json.dumps({"folder": str(broken), "resume": "true"} | settings))
    parameters = [torch.load(folder / "parameters.pt") for folder in (broken, whole)]
    assert_equal(*parameters, atol=0 if config == "ddp" else 1e-6)


def test_a_run_that_is_at_its_end_is_not_trained_on(tmp_path):
    """Neither at the end of a rollout batch nor within one."""
    for max_steps in (4, 6):
        folder = tmp_path / str(max_steps)
        limit = {"save_total_limit": 1, "lr_scheduler_type": "constant"}
        ended = train(folder, max_steps=max_steps, **limit)
        for resume in ("auto", str(folder / f"checkpoint-{max_steps}")):
            again = train(folder, max_steps=max_steps, resume=resume)
            assert again.state.global_step == max_steps
            assert_equal(again.model, ended.model)
    with pytest.raises(ValueError, match="must be a complete checkpoint"):
        train(folder, max_steps=8, resume=str(folder / "checkpoint-6"))
    # the last one from which a longer run resumes exactly, which is kept
    assert steps(folder) == [4, 6]
    longer = {"max_steps": 8, "lr_scheduler_type": "constant"}
    assert_equal(
        train(folder, resume="true", **longer).model, train(tmp_path / "8", **longer).model
    )
    inexact = {"max_steps": 8, "resume": str(folder / "checkpoint-6")}
    assert train(folder, **inexact, allow_inexact_resume=True).state.global_step == 8


@pytest.mark.parametrize("event", ["on_substep_end", "on_step_end"])
def test_training_that_was_interrupted_begins_anew(event, tmp_path):
    """In the middle of an optimizer step, and in that of a rollout batch."""

    def interrupt(*_, **__):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    calls, settings = [], {"gradient_accumulation_steps": 2, "max_steps": 3, "optim": "sgd"}
    run = made(tmp_path, save_steps=99, **settings)
    run.add_callback(type("Interrupting", (TrainerCallback,), {event: interrupt}))
    with pytest.raises(KeyboardInterrupt):
        run.train()
    fresh = made(tmp_path / "fresh", **settings)
    fresh.model.load_state_dict(run.model.state_dict())
    for one in (run, fresh):
        torch.manual_seed(0)
        one.train()
    assert_equal(run.model, fresh.model)


def interrupted_at(step, name, original):
    """A `torch.save`, `json.dump` or `open` during which the run ends."""

    def save(*args, **kwargs):
        paths = [
            Path(getattr(one, "name", one))
            for one in args
            if isinstance(one, str) or hasattr(one, "name")
        ]
        if any(path.parts[-2:] == (f"checkpoint-{step}", name) for path in paths):
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    return save


@pytest.mark.parametrize(
    ("module", "function", "name"),
    [
        (torch, "save", "optimizer.pt"),
        (torch, "save", "rng_state.pth"),
        (json, "dump", "entropy_ctrl_state.json"),  # TRL writes it last
        (Path, "replace", "complete.json.partial"),
    ],
)
def test_a_kill_while_a_checkpoint_is_written(tmp_path, monkeypatch, module, function, name):
    """The one before is still there, with `save_total_limit`, and is taken."""
    settings = {"use_adaptive_entropy": True, "save_total_limit": 1, "save_steps": 4}
    whole = train(tmp_path / "whole", max_steps=12, **settings)
    assert steps(tmp_path / "whole") == [12]
    if module is Path:
        original = Path.replace

        def patched(self, target):
            if self.parts[-2:] == ("checkpoint-8", name):
                raise KeyboardInterrupt
            return original(self, target)
    else:
        patched = interrupted_at(8, name, getattr(module, function))
    monkeypatch.setattr(module, function, patched)
    broken = tmp_path / "broken"
    with pytest.raises(KeyboardInterrupt):
        train(broken, max_steps=12, **settings)
    monkeypatch.undo()
    assert steps(broken) == [4, 8]
    checkpoint, [fault] = last_checkpoint(broken)
    assert checkpoint == str(broken / "checkpoint-4") and "checkpoint-8: complete.json" in fault
    resumed = train(broken, max_steps=12, resume="auto", **settings | {"save_total_limit": None})
    assert_equal(resumed.model, whole.model)
    for step in (12, 8):  # which was written again
        assert last_checkpoint(broken) == (str(broken / f"checkpoint-{step}"), [])
        shutil.rmtree(broken / f"checkpoint-{step}")


def test_what_was_written_last_is_kept_whatever_is_newer_or_of_a_later_step(tmp_path):
    train(tmp_path, max_steps=12)
    train(tmp_path, max_steps=8, resume=str(tmp_path / "checkpoint-4"), save_total_limit=1)
    assert steps(tmp_path) == [8, 12]  # 12 is of the earlier run


def test_the_best_model_is_one_between_rollout_batches(tmp_path):
    """Evaluations that choose it wait as checkpoints do."""
    run = train(
        tmp_path,
        **{"eval_strategy": "steps", "eval_steps": 3, "save_strategy": "best", "max_steps": 8},
        **{"metric_for_best_model": "eval_reward", "load_best_model_at_end": True},
        **{"per_device_eval_batch_size": 4, "has_evaluation": True},
    )
    evaluated = [log["step"] for log in run.state.log_history if "eval_reward" in log]
    assert evaluated == [4, 8]
    assert run.state.best_global_step in steps(tmp_path)


@pytest.mark.parametrize(("asked", "is_saved"), [(True, True), (False, True), (False, False)])
def test_training_stops_behind_a_rollout_batch_if_asked(tmp_path, asked, is_saved):
    run = made(tmp_path, max_steps=8, save_strategy="no")
    run.stop_together.is_saved = is_saved
    if asked:
        run.stop_together.ask()
    run.train()
    assert run.stop_together.has_stopped == asked
    assert run.state.global_step == (4 if asked else 8)
    assert steps(tmp_path) == [4] * asked


def test_a_launched_process_whose_launcher_is_gone_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    run = made(tmp_path, max_steps=2, save_steps=1)
    monkeypatch.setattr("os.getppid", lambda: 1)  # the kernel's answer where the parent is gone
    with pytest.raises(SystemExit, match="what launched this process has ended"):
        run.train()
    assert run.state.global_step == 1 and steps(tmp_path) == []
