"""A run that is killed and resumed reaches the parameters of an undisturbed one, to the bit."""

import json
import logging
import multiprocessing
import os
import shutil
import signal
import subprocess
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import torch
from peft import LoraConfig
from transformers import TrainerCallback

from barl_trl.trainer.resume import clear, find_checkpoint, last_checkpoint, one_writer

from ..distributed.launching import launch
from ..paths import ROOT
from ..preloaded import PRELOADED
from ..tiny import tiny_model
from .resume_worker import made, train
from .rollouts import PROBLEMS, config
from .rollouts import trainer as trainer_of


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


@pytest.mark.parametrize("kind", [pytest.param("text", marks=pytest.mark.slow), "agent"])
def test_killed_and_resumed(tmp_path, kind):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    undisturbed = run(whole, kind=kind)
    # saved every 3 steps, but behind rollout batches; and at the end
    assert steps(whole) == [4, 8, 10]
    run(broken, kind=kind, killed_at=7)
    assert steps(broken) == [4]
    assert_equal(run(broken, kind=kind, resume="true"), undisturbed)
    texts = [(one / "checkpoint-10" / "trainer_state.json").read_text() for one in (whole, broken)]
    histories = [json.loads(text)["log_history"] for text in texts]
    logs = [[log["reward"] for log in one if "reward" in log] for one in histories]
    assert logs[0] == logs[1] and len(logs[0]) == 3


@pytest.mark.slow
@pytest.mark.parametrize("config", ["ddp", "zero2", "zero3", "fsdp2"])
def test_killed_on_two_processes(tmp_path, model_path, config):
    """With DDP it is killed; the others go on from what an undisturbed run left at step 4."""
    settings = {"per_device_train_batch_size": 1, "model_path": model_path}
    settings |= {} if "zero" in config else MOVING
    launched = partial(launch, f"cpu/{config}.yaml", "tests.trainer.resume_worker")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    launched(json.dumps({"folder": str(whole)} | settings))
    if config == "ddp":
        text = json.dumps({"folder": str(broken), "killed_at": 7} | settings)
        launched(text, is_killed=True)
    else:
        shutil.copytree(whole, broken)
        for step in (8, 10):
            shutil.rmtree(broken / f"checkpoint-{step}")
    launched(json.dumps({"folder": str(broken), "resume": "true"} | settings))
    parameters = [torch.load(folder / "parameters.pt") for folder in (broken, whole)]
    assert_equal(*parameters, atol=0 if config == "ddp" else 1e-6)


def interrupting(event, count):
    """What ends in Ctrl-C at the nth event."""
    calls = []

    def interrupt(*_, **__):
        calls.append(1)
        if len(calls) == count:
            raise KeyboardInterrupt

    return type("Interrupting", (TrainerCallback,), {event: interrupt})()


MOVING = {"beta": 0.5, "sync_ref_model": True, "ref_model_sync_steps": 3}


@pytest.mark.parametrize(
    ("settings", "saved"),
    [
        # optimizer steps do not divide rollout batches, but for the third, smaller one of an epoch
        ({"gradient_accumulation_steps": 3, "max_steps": 8, "save_steps": 2}, [3, 6]),
        ({"num_iterations": 2, "gradient_accumulation_steps": 2, **MOVING}, [4, 8]),
        ({"use_adaptive_entropy": True, "entropy_target": 9.0, "is_lora": True}, [4]),
        ({"save_strategy": "epoch", "shuffle_dataset": False}, [8]),
    ],
    ids=["uneven_steps", "iterations_moving_reference", "entropy_lora", "epochs"],
)
def test_interrupted_and_resumed(tmp_path, model_path, settings, saved):
    if "beta" in settings:  # whose reference is loaded
        settings = settings | {"model_path": model_path}
    settings = {"max_steps": saved[-1] + 2} | settings
    whole = train(tmp_path / "whole", **settings)
    callback = interrupting("on_step_end", saved[-1] + 1)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "broken", callback=callback, **settings)
    assert steps(tmp_path / "broken") == saved
    resumed = train(tmp_path / "broken", resume=True, **settings)
    assert_equal(resumed.model, whole.model)
    if "beta" in settings:
        assert_equal(resumed.ref_model, whole.ref_model)
    if "entropy_target" in settings:
        assert resumed.entropy_coef == whole.entropy_coef != whole.args.entropy_coef


def test_a_run_that_is_at_its_end_is_not_trained_on(tmp_path):
    """Here within a rollout batch, from where no longer run resumes exactly."""
    settings, checkpoint = {"lr_scheduler_type": "constant"}, str(tmp_path / "6" / "checkpoint-6")
    ended = train(tmp_path / "6", max_steps=6, save_total_limit=1, **settings)
    assert steps(tmp_path / "6") == [4, 6]  # the last one from which a longer run resumes exactly
    for resume in ("auto", checkpoint):
        again = train(tmp_path / "6", max_steps=6, resume=resume, **settings)
        assert again.state.global_step == 6
        assert_equal(again.model, ended.model)
    settings |= {"max_steps": 8}
    with pytest.raises(ValueError, match="must be a complete checkpoint"):
        train(tmp_path / "6", resume=checkpoint, **settings)
    longer = train(tmp_path / "6", resume="true", **settings)
    assert_equal(longer.model, train(tmp_path / "8", **settings).model)
    inexact = train(tmp_path / "6", resume=checkpoint, allow_inexact_resume=True, **settings)
    assert inexact.state.global_step == 8
    inexact.save_model()
    inexact.save_state()
    with pytest.raises(ValueError, match="must be a complete checkpoint"):  # it is the run
        find_checkpoint(config(tmp_path / "6", allow_inexact_resume=True), str(tmp_path / "6"))


@pytest.mark.parametrize("event", ["on_substep_end", "on_step_end"])
def test_training_that_was_interrupted_begins_anew(event, tmp_path):
    """In the middle of an optimizer step, and in that of a rollout batch."""
    settings = {"gradient_accumulation_steps": 2, "max_steps": 3, "optim": "sgd"}
    run = made(tmp_path, save_steps=99, **settings)
    run.add_callback(interrupting(event, 2))
    with pytest.raises(KeyboardInterrupt):
        run.train()
    fresh = made(tmp_path / "fresh", **settings)
    fresh.model.load_state_dict(run.model.state_dict())
    for one in (run, fresh):
        torch.manual_seed(0)
        one.train()
    assert_equal(run.model, fresh.model)


LIMITED = {"use_adaptive_entropy": True, "save_total_limit": 1, "save_steps": 4, "max_steps": 9}


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limited")
    whole = train(folder, **LIMITED)
    assert steps(folder) == [8, 9]  # from 9 no longer run resumes exactly
    return whole.model


WRITERS = {  # TRL writes the controller last
    "optimizer.pt": (torch, "save"),
    "entropy_ctrl_state.json": (json, "dump"),
    "complete.json.partial": (Path, "replace"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_kill_while_a_checkpoint_is_written(limited, tmp_path, monkeypatch, name):
    """The one before is still there, with `save_total_limit`, and is taken."""
    module, function = WRITERS[name]
    original = getattr(module, function)

    def interrupted(*args, **kwargs):
        paths = [Path(getattr(one, "name", one)) for one in args if isinstance(one, str)]
        paths += [Path(one) for one in args if isinstance(one, Path)]
        paths += [Path(one.name) for one in args if hasattr(one, "write")]
        if any(path.parts[-2:] == ("checkpoint-8", name) for path in paths):
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(module, function, interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, **LIMITED)
    monkeypatch.undo()
    assert steps(tmp_path) == [4, 8]
    checkpoint, [fault] = last_checkpoint(tmp_path)
    assert checkpoint == str(tmp_path / "checkpoint-4") and "checkpoint-8" in fault
    resumed = train(tmp_path, resume="auto", **LIMITED | {"save_total_limit": None})
    assert_equal(resumed.model, limited)
    assert last_checkpoint(tmp_path)[0] == str(tmp_path / "checkpoint-8")  # written again


BEST = {"eval_strategy": "steps", "eval_steps": 3, "load_best_model_at_end": True}
BEST |= {"per_device_eval_batch_size": 4, "has_evaluation": True}


def test_the_best_model_is_one_between_rollout_batches(tmp_path):
    """Evaluations that choose it wait as checkpoints do."""
    chosen = {"save_strategy": "best", "metric_for_best_model": "eval_reward", "max_steps": 8}
    run = train(tmp_path, **BEST, **chosen)
    evaluated = [log["step"] for log in run.state.log_history if "eval_reward" in log]
    assert evaluated == [4, 8] and run.state.best_global_step in steps(tmp_path)


class ClockIsAhead(TrainerCallback):
    """Earlier checkpoints are of later times, as if the clock had been put back."""

    def on_save(self, args, state, control, **_):
        for path in Path(args.output_dir).glob("checkpoint-*"):
            os.utime(path, (2_000_000_000 - state.global_step,) * 2)


@pytest.mark.parametrize(("limit", "kept"), [(1, [4, 12]), (2, [4, 12]), (3, [4, 8, 12])])
def test_what_was_just_written_and_the_best_stay_whatever_the_clock_says(tmp_path, limit, kept):
    (tmp_path / "checkpoint-4-mine").mkdir()
    first = {"metric_for_best_model": "eval_num_tokens", "greater_is_better": False}
    settings = BEST | first | {"save_total_limit": limit, "save_steps": 3, "max_steps": 12}
    run = train(tmp_path, callback=ClockIsAhead(), **settings)
    (tmp_path / "checkpoint-4-mine").rmdir()
    assert run.state.best_global_step == 4 and steps(tmp_path) == kept
    written = tmp_path / "checkpoint-12" / "training_args.bin"
    saved = torch.load(written, weights_only=False)
    assert run.args.save_total_limit == saved.save_total_limit == limit


# An output folder belongs to one run, which resumes with the settings of its checkpoints

OWN = (
    *("model.safetensors", "adapter_model.safetensors", "trainer_state.json", "training_args.bin"),
    *("checkpoint-5/model.safetensors", "beliefs/rollouts_00000.parquet"),
    *("completions/completions_00001.parquet", "model-00001-of-00002.safetensors"),
)
OTHERS = ("notes.txt", "checkpoint-mine/a", "beliefs/notes.txt", "data/rows.jsonl", "config.json")


def put(folder, names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


def files(folder):
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return found - {"_lock"}


def test_what_a_run_wrote_is_cleared_and_nothing_else(tmp_path):
    folder, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    put(folder, [*OWN, *OTHERS])
    put(elsewhere, ["model.safetensors", "completions_00000.parquet"])
    (folder / "checkpoint-9").symlink_to(elsewhere)
    shutil.rmtree(folder / "completions")
    (folder / "completions").symlink_to(elsewhere)
    clear(folder)
    assert files(folder) - {"completions/completions_00000.parquet"} == set(OTHERS)
    assert not (folder / "checkpoint-9").exists()
    assert files(elsewhere) == {"model.safetensors", "completions_00000.parquet"}


@pytest.mark.parametrize("name", OWN)
def test_a_used_folder_is_refused_but_where_only_what_is_unfinished_begins_again(tmp_path, name):
    put(tmp_path, [name])
    for choice, is_refused in ((None, True), ("auto", "/" not in name)):
        with pytest.raises(ValueError, match="must be new") if is_refused else nullcontext():
            assert find_checkpoint(config(tmp_path), choice) is None
    assert find_checkpoint(config(tmp_path, overwrite_output_dir=True), None) is None


def test_a_file_where_a_folder_must_be_is_refused(tmp_path):
    put(tmp_path, ["out", "a/beliefs", "b/completions"])
    for name in ("out", "a", "b"):
        with pytest.raises(ValueError, match="got a file"):
            find_checkpoint(config(tmp_path / name), "auto")


def hold(folder, is_held):
    with one_writer(folder):
        is_held.set()
        signal.pause()


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path):
    context = multiprocessing.get_context("fork")
    is_held = context.Event()
    holder = context.Process(target=hold, args=(tmp_path, is_held))
    holder.start()
    is_held.wait()
    with pytest.raises(ValueError, match="one writer"), one_writer(tmp_path):
        holder.kill()
    holder.kill()
    holder.join()
    with one_writer(tmp_path):
        pass


def test_training_refuses_a_used_folder_or_overwrites_it(tmp_path, model, tokenizer):
    put(tmp_path, OWN)
    with pytest.raises(ValueError, match="must be new"):
        trainer_of(model, tokenizer, config(tmp_path)).train()
    assert files(tmp_path) == set(OWN)
    own = trainer_of(model, tokenizer, config(tmp_path, overwrite_output_dir=True))
    own.train()
    assert files(tmp_path) == set()
    own.save_model()
    own.train()  # the folder is its own
    assert (tmp_path / "model.safetensors").exists()
    args = config(tmp_path, overwrite_output_dir=True)
    with pytest.raises(ValueError, match="would delete the model"):
        trainer_of(str(tmp_path), tokenizer, args).train()
    assert (tmp_path / "model.safetensors").exists()


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tokenizer):
    """The folder of a run with two checkpoints, the steps 1 and 2 of at most 4."""
    folder = tmp_path_factory.mktemp("trained")
    args = config(folder, **{"max_steps": 2, "save_strategy": "steps", "save_steps": 1})
    args.hub_token = "hf_secret"
    trainer_of(tiny_model(tokenizer), tokenizer, args).train()
    return folder


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of its folder, and the checkpoints in it."""
    folder = shutil.copytree(trained, tmp_path / "run")
    return folder, *(folder / f"checkpoint-{n}" for n in (1, 2))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.safetensors", lambda path: path.write_bytes(path.read_bytes()[:-1])),
        ("optimizer.pt", lambda path: path.write_bytes(b"")),
        ("rng_state.pth", lambda path: path.unlink()),
        ("complete.json", lambda path: path.write_text("{}")),
        ("complete.json", lambda path: path.write_bytes(b"\xff")),
    ],
)
def test_an_incomplete_checkpoint_is_passed_over(copied, name, damage, caplog):
    folder, first, last = copied
    assert find_checkpoint(config(folder), "true") == str(last)
    damage(last / name)
    for choice in ("true", "auto", True):
        assert find_checkpoint(config(folder), choice) == str(first)
    assert name in caplog.text and str(last) in caplog.text
    with pytest.raises(ValueError, match="must be a complete checkpoint"):
        find_checkpoint(config(folder), str(last))
    assert find_checkpoint(config(folder, allow_inexact_resume=True), str(last)) == str(last)


def test_where_there_is_none_and_in_another_folder(copied, tmp_path):
    folder, first, last = copied
    (last / "complete.json").unlink()
    (first / "complete.json").rename(tmp_path / "complete.json")
    for place in (folder, tmp_path / "nowhere"):
        assert find_checkpoint(config(place), "auto") is None
        for choice in ("true", str(tmp_path / "checkpoint-9")):
            with pytest.raises(ValueError, match="must be a complete checkpoint"):
                find_checkpoint(config(place), choice)
    for choice in (None, False, "false", "False", ""):
        assert find_checkpoint(config(tmp_path / "nowhere"), choice) is None
    (tmp_path / "complete.json").rename(first / "complete.json")
    put(tmp_path / "other", OWN)
    with pytest.raises(ValueError, match="must be new"):
        find_checkpoint(config(tmp_path / "other"), str(first))
    for place in (folder, tmp_path / "new"):
        assert find_checkpoint(config(place), str(first)) == str(first)


@pytest.fixture
def resume(copied, model, tokenizer, caplog):
    """Resumes from the first checkpoint with other settings; returns what is said of them."""

    def resume(rows=PROBLEMS, model=model, **settings):
        folder, first, _ = copied
        args = config(folder, **{"max_steps": 2} | settings)
        made = trainer_of(model, tokenizer, args, rows=rows)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            made.train(str(first))
        return [line for line in caplog.messages if "other settings" in line]

    return resume


def test_one_line_names_every_difference_but_of_secrets_and_places(copied, resume):
    saved = (copied[1] / "complete.json").read_text()
    assert "hf_secret" not in saved and "output_dir" not in saved
    assert resume() == []
    [line] = resume(learning_rate=2e-6, temperature=0.5, credit="rloo", logging_steps=2)
    assert "learning_rate 1e-06 -> 2e-06" in line and "credit barl -> rloo" in line
    assert "temperature 1.0 -> 0.5" in line and "logging_steps" not in line


def test_an_adapters_changes_are_named_and_no_rewards_of_turns(tmp_path, tokenizer, caplog):
    fields = {"save_strategy": "steps", "save_steps": 1, "max_steps": 2}
    given = {"turn_rewards": lambda steps, **_: [[1.0] * len(one) for one in steps]}
    first, changed = str(tmp_path / "checkpoint-1"), {"lora_dropout": 0.0, "lora_alpha": 4}
    for checkpoint, lora in ((None, {}), (first, {}), (first, changed)):
        peft = LoraConfig(target_modules=["q_proj", "v_proj"], **{"lora_dropout": 0.05} | lora)
        model, args = tiny_model(tokenizer), config(tmp_path, **fields)
        trainer_of(model, tokenizer, args, peft_config=peft, **given).train(checkpoint)
    [line] = [line for line in caplog.messages if "other settings" in line]
    assert "lora_dropout 0.05 -> 0.0" in line and "lora_alpha 8 -> 4" in line
    assert "rewards" not in line and "target_modules" not in line and "RANK" not in line


@pytest.mark.parametrize(
    "settings",
    [{"seed": 1}, {"num_generations": 8}, {"optim": "adamw_torch"}, {"rows": PROBLEMS[::-1]}],
)
def test_what_makes_it_inexact_is_refused_unless_it_is_meant(resume, settings):
    with pytest.raises(ValueError, match="allow_inexact_resume"):
        resume(**settings)
    assert resume(**settings, allow_inexact_resume=True)


def test_another_models_checkpoint_is_refused_before_it_is_loaded(resume, model):
    for shape in ({"hidden_size": 16}, {"num_hidden_layers": 1, "layer_types": None}):
        other = type(model)(type(model.config)(**model.config.to_dict() | shape))
        with pytest.raises(ValueError, match="other weights"):
            resume(model=other, allow_inexact_resume=True)
