"""A checkpoint that cannot be loaded is named, and an older good one is taken."""

import json
import shutil

import pytest

from barl_trl.trainer.checkpoints.files import (
    _END_MARKER,
    SETTINGS,
    _find_fault,
    checkpoint_to_resume,
    missing_states,
    write_end_marker,
)

from .rollouts import config, trainer

FILES = (
    *("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "rollouts_0_of_1.pt"),
    *("trainer_state.json", "training_args.bin", "config.json"),
)


def settings(folder, **kwargs):
    return config(
        folder,
        per_device_train_batch_size=4,
        steps_per_generation=2,
        save_strategy="steps",
        save_steps=1,
        **kwargs,
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tokenizer):
    """A run with checkpoints in the middle and at the end of a rollout batch."""
    from ..tiny import tiny_model

    folder = tmp_path_factory.mktemp("trained")
    trainer(tiny_model(tokenizer), tokenizer, settings(folder, max_steps=2)).train()
    return folder


@pytest.fixture
def run(trained, tmp_path):
    """A copy of its folder, the checkpoints in it, and its settings."""
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    return folder, *(folder / f"checkpoint-{n}" for n in (1, 2)), settings(folder)


def deep(_):
    return b"[" * 9999


def without_rollouts(checkpoint):
    """As TRL and transformers leave it."""
    (checkpoint / _END_MARKER).unlink()
    (checkpoint / "rollouts_0_of_1.pt").unlink()


def test_a_checkpoint_ends_with_a_list_of_its_files(run):
    _, _, last, args = run
    sizes = json.loads((last / _END_MARKER).read_text())["sizes"]
    assert {*sizes} == {name for name in FILES if not name.endswith(".json")}
    assert _find_fault(str(last), args) is None
    assert missing_states(str(last), args) == []


@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith(".json")])
def test_a_file_that_was_cut_off_is_named_and_passed_over(run, name, caplog):
    _, first, last, args = run
    content = (last / name).read_bytes()
    (last / name).write_bytes(content[: len(content) // 2])
    assert checkpoint_to_resume("true", args) == str(first)
    [warning] = [r.getMessage() for r in caplog.records if "incomplete" in r.getMessage()]
    assert warning.endswith(
        f"incomplete: {last}: a part of {name} is missing; resuming from {first}"
    )
    with pytest.raises(ValueError, match=rf"must be complete, got {last}: a part of {name} is mis"):
        checkpoint_to_resume(str(last), args)


@pytest.mark.parametrize("name", ["trainer_state.json", _END_MARKER, "config.json", SETTINGS])
@pytest.mark.parametrize(("text", "fault"), [("", "must hold JSON"), ("{}", "must have")])
def test_a_file_with_nothing_in_it_is_named(run, name, text, fault):
    _, first, last, args = run
    (last / name).write_text(text)
    assert _find_fault(str(last), args).startswith(f"{last / name} {fault}")
    assert checkpoint_to_resume("true", args) == str(first)


@pytest.mark.parametrize(
    "damage", [lambda text: text[: len(text) // 2], lambda text: b"\xff" * len(text), deep]
)
def test_damaged_json_is_named_and_passed_over(run, damage):
    """Also that which transformers reads when a run resumes, as `config.json`."""
    _, first, last, args = run
    names = {path.name for path in last.glob("*.json")}
    assert names > {"config.json", SETTINGS, "trainer_state.json", _END_MARKER}
    for name in names:
        whole = (last / name).read_bytes()
        (last / name).write_bytes(damage(whole))
        fault = _find_fault(str(last), args)
        assert fault.startswith(f"{last / name} must ") and "\n" not in fault
        assert checkpoint_to_resume("auto", args) == str(first)
        (last / name).write_bytes(whole)
    assert _find_fault(str(last), args) is None


@pytest.mark.parametrize(
    "name", ["model.safetensors", "rollouts_0_of_1.pt", "trainer_state.json", _END_MARKER]
)
def test_a_missing_file_is_named_and_passed_over(run, name):
    _, first, last, args = run
    (last / name).unlink()
    assert _find_fault(str(last), args) == f"{name} is missing"
    assert checkpoint_to_resume("auto", args) == str(first)


def test_a_missing_optimizer_is_said(run):
    _, _, last, args = run
    for name in ("scheduler.pt", "optimizer.pt"):
        (last / name).unlink()
        assert checkpoint_to_resume("true", args) == str(last)
        [lacking] = missing_states(str(last), args)
        assert lacking == f"{name}: the optimizer and the learning rate start anew"


def test_a_checkpoint_of_trls_has_weights_and_lies_between_rollout_batches(run):
    _, first, last, args = run
    without_rollouts(last)
    assert checkpoint_to_resume("true", args) == str(last)
    (last / "model.safetensors").unlink()
    assert _find_fault(str(last), args) == "model.safetensors is missing"
    without_rollouts(first)
    message = r"rollouts are missing, which only BARLTrainer saves, and step 1 lies in"
    with pytest.raises(ValueError, match=message):
        checkpoint_to_resume(str(first), args)


def test_another_number_of_processes(run):
    _, _, last, args = run
    (last / "rollouts_0_of_1.pt").rename(last / "rollouts_0_of_2.pt")
    write_end_marker(last)
    for value in ("true", str(last)):
        with pytest.raises(ValueError, match="the number of processes must be 2, with which"):
            checkpoint_to_resume(value, args)


def test_none_of_them_is_complete(run, caplog):
    _, first, last, args = run
    for checkpoint in (first, last):
        (checkpoint / "trainer_state.json").write_text("")
    with pytest.raises(
        ValueError, match=r"must find a complete checkpoint, got none in .*/run \(.*-2: "
    ):
        checkpoint_to_resume("true", args)
    assert checkpoint_to_resume("auto", args) is None
    assert "starting anew" in caplog.text


def test_there_is_none(tmp_path):
    args = config(tmp_path / "none")
    for value in (None, False, "false", "False", "", "auto"):
        assert checkpoint_to_resume(value, args) is None
    with pytest.raises(
        ValueError, match=r"must find a complete checkpoint, got none in .*/none: leave"
    ):
        checkpoint_to_resume("true", args)
