"""An output folder belongs to one run, which resumes with the settings of its checkpoints."""

import logging
import multiprocessing
import shutil
import signal
from contextlib import nullcontext

import pytest

from barl_trl.trainer.resume import clear, find_checkpoint, one_writer

from ..tiny import tiny_model
from .rollouts import PROBLEMS, config, trainer

OWN = (
    *("model.safetensors", "adapter_model.safetensors", "trainer_state.json", "training_args.bin"),
    *("checkpoint-5/model.safetensors", "beliefs/rollouts_00000.parquet"),
    *("completions/completions_00001.parquet", "model-00001-of-00002.safetensors"),
)
OTHERS = ("notes.txt", "checkpoint-mine/a", "beliefs/notes.txt", "data/rows.jsonl", "config.json")


def make(folder, names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


def files(folder):
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return found - {"_lock"}


def test_what_a_run_wrote_is_cleared_and_nothing_else(tmp_path):
    folder, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    make(folder, [*OWN, *OTHERS])
    make(elsewhere, ["model.safetensors", "completions_00000.parquet"])
    (folder / "checkpoint-9").symlink_to(elsewhere)
    shutil.rmtree(folder / "completions")
    (folder / "completions").symlink_to(elsewhere)
    clear(folder)
    assert files(folder) - {"completions/completions_00000.parquet"} == set(OTHERS)
    assert not (folder / "checkpoint-9").exists()
    assert files(elsewhere) == {"model.safetensors", "completions_00000.parquet"}


@pytest.mark.parametrize("name", OWN)
def test_a_used_folder_is_refused_but_where_only_what_is_unfinished_begins_again(tmp_path, name):
    make(tmp_path, [name])
    for choice, is_refused in ((None, True), ("auto", "/" not in name)):
        with pytest.raises(ValueError, match="must be new") if is_refused else nullcontext():
            assert find_checkpoint(config(tmp_path), choice) is None
    assert find_checkpoint(config(tmp_path, overwrite_output_dir=True), None) is None


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
    make(tmp_path, OWN)
    with pytest.raises(ValueError, match="must be new"):
        trainer(model, tokenizer, config(tmp_path)).train()
    assert files(tmp_path) == set(OWN)
    own = trainer(model, tokenizer, config(tmp_path, overwrite_output_dir=True))
    own.train()
    assert files(tmp_path) == set()
    own.save_model()
    own.train()  # the folder is its own
    assert (tmp_path / "model.safetensors").exists()
    args = config(tmp_path, overwrite_output_dir=True)
    with pytest.raises(ValueError, match="would delete the model"):
        trainer(str(tmp_path), tokenizer, args).train()
    assert (tmp_path / "model.safetensors").exists()


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tokenizer):
    """The folder of a run with two checkpoints, the steps 1 and 2 of at most 4."""
    folder = tmp_path_factory.mktemp("trained")
    args = config(folder, **{"max_steps": 2, "save_strategy": "steps", "save_steps": 1})
    args.hub_token = "hf_secret"
    trainer(tiny_model(tokenizer), tokenizer, args).train()
    return folder


@pytest.fixture
def run(trained, tmp_path):
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
def test_an_incomplete_checkpoint_is_passed_over(run, name, damage, caplog):
    folder, first, last = run
    assert find_checkpoint(config(folder), "true") == str(last)
    damage(last / name)
    for choice in ("true", "auto", True):
        assert find_checkpoint(config(folder), choice) == str(first)
    assert name in caplog.text and str(last) in caplog.text
    with pytest.raises(ValueError, match="must be a complete checkpoint"):
        find_checkpoint(config(folder), str(last))
    assert find_checkpoint(config(folder, allow_inexact_resume=True), str(last)) == str(last)


def test_where_there_is_none_and_in_another_folder(run, tmp_path):
    folder, first, last = run
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
    make(tmp_path / "other", OWN)
    with pytest.raises(ValueError, match="must be new"):
        find_checkpoint(config(tmp_path / "other"), str(first))
    for place in (folder, tmp_path / "new"):
        assert find_checkpoint(config(place), str(first)) == str(first)


@pytest.fixture
def resume(run, model, tokenizer, caplog):
    """Resumes from the first checkpoint with other settings; returns what is said of them."""

    def resume(rows=PROBLEMS, **settings):
        folder, first, _ = run
        made = trainer(model, tokenizer, config(folder, **{"max_steps": 2} | settings), rows=rows)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            made.train(str(first))
        return [line for line in caplog.messages if "other settings" in line]

    return resume


def test_one_line_names_every_difference_but_of_secrets_and_places(run, resume):
    saved = (run[1] / "complete.json").read_text()
    assert "hf_secret" not in saved and "output_dir" not in saved
    assert resume() == []
    [line] = resume(learning_rate=2e-6, temperature=0.5, credit="rloo", logging_steps=2)
    assert "learning_rate 1e-06 -> 2e-06" in line and "credit barl -> rloo" in line
    assert "temperature 1.0 -> 0.5" in line and "logging_steps" not in line


@pytest.mark.parametrize(
    "settings",
    [{"seed": 1}, {"num_generations": 8}, {"optim": "adamw_torch"}, {"rows": PROBLEMS[::-1]}],
)
def test_what_makes_it_inexact_is_refused_unless_it_is_meant(resume, settings):
    with pytest.raises(ValueError, match="allow_inexact_resume"):
        resume(**settings)
    assert resume(**settings, allow_inexact_resume=True)
