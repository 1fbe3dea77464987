"""An output folder belongs to one run."""

import shutil
import signal
import subprocess
import sys

import pytest
from barl_trl.trainer.checkpoints.output_folder import _clear, left_in, one_writer, refuse_used
from filelock import Timeout

from barl_trl import cli

from .rollouts import config, trainer

OWN = (
    *("model.safetensors", "config.json", "trainer_state.json", "training_args.bin", "README.md"),
    *("checkpoint-5/model.safetensors", "beliefs/rollouts_00000.parquet"),
    *("completions/completions_00001.parquet",),
)
OTHERS = ("notes.txt", "checkpoint-mine/a", "beliefs/notes.txt", "data/rows.jsonl", "inspect/a.js")


def make(folder, names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_what_a_run_left_is_refused_by_name_with_three_ways_out(tmp_path):
    make(tmp_path, OWN)
    with pytest.raises(ValueError, match="output_dir must be new") as raised:
        refuse_used(tmp_path)
    assert str(raised.value) == (
        f"output_dir must be new, got {tmp_path} with checkpoint-5, model.safetensors and 3 more "
        "of an earlier run: go on with --resume_from_checkpoint auto, name another folder, or "
        "delete them with --overwrite_output_dir true."
    )


def test_other_files_are_no_run(tmp_path):
    make(tmp_path, [*OTHERS, "config.json", "README.md"])
    assert left_in(tmp_path) == left_in(tmp_path / "nowhere") == []
    refuse_used(tmp_path)


def test_what_came_to_no_checkpoint_may_be_begun_again(tmp_path):
    make(tmp_path, ["beliefs/rollouts_00000.parquet", "checkpoint-5/incomplete"])
    assert left_in(tmp_path)
    refuse_used(tmp_path, is_unfinished=True)


def test_what_a_run_wrote_is_cleared_and_nothing_else(tmp_path):
    folder, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    make(folder, [*OWN, *OTHERS])
    make(elsewhere, ["model.safetensors", "rollouts_00000.parquet"])
    (folder / "checkpoint-9").symlink_to(elsewhere)
    _clear(folder)
    assert files(folder) == set(OTHERS)
    assert not (folder / "checkpoint-9").exists()
    assert files(elsewhere) == {"model.safetensors", "rollouts_00000.parquet"}


def test_a_linked_folder_is_not_entered(tmp_path):
    make(tmp_path / "elsewhere", ["rollouts_00000.parquet"])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "beliefs").symlink_to(tmp_path / "elsewhere")
    _clear(tmp_path / "out")
    assert files(tmp_path / "elsewhere") == {"rollouts_00000.parquet"}


HOLDER = """
import sys, time
from pathlib import Path
from barl_trl.trainer.checkpoints.output_folder import one_writer
with one_writer(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        said = rf"one writer, got {tmp_path}, into which process {holder.pid} on .* writes: wait"
        with pytest.raises(ValueError, match=said), one_writer(tmp_path):
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with one_writer(tmp_path):
        pass


@pytest.mark.parametrize("error", [KeyError, Timeout])
def test_a_folder_is_given_back_after_an_error(tmp_path, error):
    """Also after one of another lock, such as the Hub's cache has."""
    for _ in range(2):
        with pytest.raises(error), one_writer(tmp_path):
            raise error("x")


def test_python_refuses_a_used_folder_before_it_writes(tmp_path, model, tokenizer):
    make(tmp_path, OWN)
    made = trainer(model, tokenizer, config(tmp_path, max_steps=1))
    with pytest.raises(ValueError, match=r"output_dir must be new, got .* with checkpoint-5"):
        made.train()
    assert files(tmp_path) - {"_lock"} == set(OWN)
    own = trainer(model, tokenizer, config(tmp_path, max_steps=1, overwrite_output_dir=True))
    own.train()
    assert "checkpoint-5/model.safetensors" not in files(tmp_path)
    own.save_model()
    own.train()  # the folder is its own
    assert (tmp_path / "model.safetensors").exists()
    again = trainer(model, tokenizer, config(tmp_path, max_steps=1))
    with pytest.raises(ValueError, match="output_dir must be new"):
        again.train()


@pytest.mark.parametrize(("place", "reason"), [("file", "File exists"), ("file/run", "Not a dir")])
def test_a_folder_that_cannot_be_made_is_refused(tmp_path, model, tokenizer, place, reason):
    (tmp_path / "file").touch()
    message = (
        rf"output_dir must be a folder that can be made, got '.*/{place}' \({reason}.*\): name"
    )
    with pytest.raises(ValueError, match=message):
        trainer(model, tokenizer, config(tmp_path / place))


@pytest.mark.parametrize("place", ["", "checkpoint-5"])
def test_a_model_is_not_deleted_before_it_is_trained(tmp_path, model, tokenizer, place):
    model.save_pretrained(tmp_path / place)
    args = config(tmp_path, overwrite_output_dir=True)
    with pytest.raises(ValueError, match="must be False with a model in output_dir, got True and"):
        trainer(str(tmp_path / place), tokenizer, args)
    assert (tmp_path / place / "model.safetensors").exists()


def test_the_command_refuses_a_used_folder_before_it_loads_a_model(tmp_path, recipe, capsys):
    make(tmp_path / "out", OWN)
    command = ["train", "--config", recipe(max_steps=1), "--model_name_or_path", "never/loaded"]
    with pytest.raises(SystemExit) as raised:
        cli.main(command)
    assert raised.value.code == 2
    assert "--overwrite_output_dir true" in capsys.readouterr().err
    assert files(tmp_path / "out") - {"_lock"} == set(OWN)


@pytest.fixture
def deletes():
    """Makes a reward during which somebody deletes the output folder, and may begin another run."""
    others = []

    def made(folder, *, begins_another):
        def reward(prompts, trainer_state, **_):
            if trainer_state.global_step == 1:
                shutil.rmtree(folder)
            if trainer_state.global_step == 1 and begins_another:
                folder.mkdir()
                command = [sys.executable, "-c", HOLDER, str(folder)]
                others.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
                assert others[0].stdout.readline() == "held\n"
            return [float(n) for n in range(len(prompts))]

        return reward

    yield made
    for other in others:
        other.kill()
        other.wait()


def test_a_folder_that_is_deleted_in_training_is_made_again(
    tmp_path, model, tokenizer, deletes, caplog
):
    out = tmp_path / "out"
    args = config(out, max_steps=3, save_strategy="steps", save_steps=1, log_beliefs=True)
    trainer(model, tokenizer, args, reward_funcs=deletes(out, begins_another=False)).train()
    assert f"{out} was deleted, and is made again: what was in it is lost" in caplog.text
    written = {path.name for path in (*out.glob("checkpoint-*"), *out.glob("beliefs/*"))}
    records = {f"rollouts_0000{step}.parquet" for step in (1, 2)}
    assert written == {"checkpoint-2", "checkpoint-3"} | records


def test_a_run_that_began_in_the_place_of_a_deleted_folder_is_not_written_over(
    tmp_path, model, tokenizer, deletes
):
    out = tmp_path / "out"
    args = config(out, max_steps=3, save_strategy="steps", save_steps=1)
    made = trainer(model, tokenizer, args, reward_funcs=deletes(out, begins_another=True))
    with pytest.raises(ValueError, match=rf"must have one writer, got {out}, into which process"):
        made.train()
    assert files(out) == {"_lock"}
