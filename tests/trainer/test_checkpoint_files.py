"""A checkpoint that cannot be loaded is named, and an older good one is taken."""

import json
import shutil

import pytest

from barl_trl.trainer.checkpoints.files import (
    _END_MARKER,
    _find_fault,
    checkpoint_to_resume,
    missing_states,
)

from .rollouts import config, trainer

FILES = (
    *("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "rollouts_0_of_1.pt"),
    *("trainer_state.json", "training_args.bin", "config.json"),
)
DAMAGES = {
    "empty": lambda content: b"",
    "cut off": lambda content: content[: len(content) // 2],
    "overwritten": lambda content: b"\x00" * len(content),
}


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


def without_marker(checkpoint):
    (checkpoint / _END_MARKER).unlink()


def without_rollouts(checkpoint):
    """As TRL and transformers leave it."""
    without_marker(checkpoint)
    (checkpoint / "rollouts_0_of_1.pt").unlink()


def test_a_checkpoint_ends_with_a_list_of_its_files(run):
    _, _, last, args = run
    sizes = json.loads((last / _END_MARKER).read_text())["sizes"]
    assert {*sizes} == {name for name in FILES if not name.endswith(".json")}
    assert _find_fault(str(last), args) is None
    assert missing_states(str(last), args) == []


@pytest.mark.parametrize("has_marker", [True, False], ids=["marked", "of an earlier version"])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_an_unreadable_file_is_named_and_passed_over(run, name, damage, has_marker, caplog):
    _, first, last, args = run
    if not has_marker:
        without_marker(first)
        without_marker(last)
    (last / name).write_bytes(DAMAGES[damage]((last / name).read_bytes()))
    assert checkpoint_to_resume("true", args) == str(first)
    [warning] = [r.getMessage() for r in caplog.records if "incomplete" in r.getMessage()]
    assert f"incomplete: {last}: {name} cannot be read (" in warning
    assert warning.endswith(f"; resuming from {first}")
    with pytest.raises(ValueError, match=rf"must be complete, got {last}: {name} cannot be read"):
        checkpoint_to_resume(str(last), args)


@pytest.mark.parametrize("name", ["trainer_state.json", _END_MARKER])
def test_a_file_with_nothing_in_it_is_named(run, name):
    _, first, last, args = run
    (last / name).write_text("{}")
    assert _find_fault(str(last), args).startswith(
        f"{name} cannot be read ({last / name} must have"
    )
    assert checkpoint_to_resume("true", args) == str(first)


@pytest.mark.parametrize("name", ["model.safetensors", "rollouts_0_of_1.pt", "rng_state.pth"])
def test_a_missing_file_is_named_and_passed_over(run, name):
    _, first, last, args = run
    (last / name).unlink()
    assert _find_fault(str(last), args) == f"{name} is missing"
    assert checkpoint_to_resume("auto", args) == str(first)


def test_a_file_that_was_cut_off_behind_what_is_read_first(run):
    """Of shards that no reader is known for."""
    _, _, last, args = run
    (last / "shard.distcp").write_bytes(b"12345")
    marker = json.loads((last / _END_MARKER).read_text())
    marker["sizes"]["shard.distcp"] = 6
    (last / _END_MARKER).write_text(json.dumps(marker))
    assert _find_fault(str(last), args) == "a part of shard.distcp is missing"


def test_a_missing_optimizer_is_said(run):
    _, _, last, args = run
    for name in ("scheduler.pt", "optimizer.pt"):
        (last / name).unlink()
        assert checkpoint_to_resume("true", args) == str(last)
        [lacking] = missing_states(str(last), args)
        assert lacking == f"{name}: the optimizer and the learning rate start anew"


def test_without_an_end_marker_weights_and_their_shards_must_be_there(run):
    _, _, last, args = run
    without_marker(last)
    assert _find_fault(str(last), args) is None
    (last / "model.safetensors").rename(last / "model-00001-of-00002.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors"}}
    (last / "model.safetensors.index.json").write_text(json.dumps(index))
    assert _find_fault(str(last), args) is None
    index["weight_map"]["b"] = "model-00002-of-00002.safetensors"
    (last / "model.safetensors.index.json").write_text(json.dumps(index))
    assert _find_fault(str(last), args) == "model-00002-of-00002.safetensors is missing"
    for path in last.glob("model*"):
        path.unlink()
    assert _find_fault(str(last), args) == "model.safetensors is missing"


def test_a_checkpoint_of_trls_is_taken_between_rollout_batches(run):
    _, first, last, args = run
    without_rollouts(last)
    assert checkpoint_to_resume("true", args) == str(last)
    without_rollouts(first)
    message = r"rollouts_0_of_1.pt is missing, which only BARLTrainer saves, and step 1 lies in"
    with pytest.raises(ValueError, match=message):
        checkpoint_to_resume(str(first), args)


def test_adaptive_entropy_of_trls_is_not_there_before_its_file(run):
    folder, _, last, _ = run
    without_rollouts(last)
    args = settings(folder, use_adaptive_entropy=True)
    assert _find_fault(str(last), args) == "entropy_ctrl_state.json is missing"
    (last / "entropy_ctrl_state.json").write_text("{}")
    assert _find_fault(str(last), args) is None


def test_another_number_of_processes(run):
    _, _, last, args = run
    without_marker(last)
    (last / "rollouts_0_of_1.pt").rename(last / "rollouts_0_of_2.pt")
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
