"""A run on a machine without a home, shared memory, many open files, or short and plain names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from barl_trl import cli
from barl_trl.synthetic.search import TINY_MODEL_DIR

from ..paths import ROOT

BARL = str(Path(sys.executable).with_name("barl"))
TRAIN = [BARL, "train", "--model_name_or_path", str(TINY_MODEL_DIR), "--prompt_template"]
TRAIN += ["{problem}", "--dataset_name", str(ROOT / "examples" / "search.jsonl"), "--max_steps"]
TRAIN += ["1", "--num_generations", "2", "--per_device_train_batch_size", "2", "--step_size", "4"]
TRAIN += ["--max_completion_length", "8", "--report_to", "none", "--log_beliefs", "true"]
POOR = 'mount -t tmpfs -o ro none /dev/shm && ulimit -n 64 && exec "$@"'


@pytest.mark.slow
@pytest.mark.skipif(
    subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0,
    reason="the user may not mount",
)
def test_a_run_needs_no_home_no_shared_memory_and_few_files(tmp_path):
    folder = tmp_path / "ünï 漢字 🎲" / ("ä" * 100)
    home = {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": ""}
    for command in (
        [*TRAIN, "--output_dir", str(folder), "--accelerate_config", "cpu/ddp"],
        [BARL, "inspect", str(folder)],
    ):
        done = subprocess.run(
            ["unshare", "--mount", "bash", "-c", POOR, "barl", *command],
            cwd=tmp_path,
            env=os.environ | home,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    assert (folder / "model.safetensors").exists()
    assert (folder / "inspect" / "index.html").exists()


LONG = "x" * 300


@pytest.mark.parametrize(
    "command",
    [
        ["data", "check", LONG],
        ["inspect", LONG],
        ["analyze", "curves", f"a={LONG}"],
        ["train", "--config", f"{LONG}.yaml"],
        ["plan", "--accelerate_config", LONG, "--model_name_or_path", "a/b", "--dataset_name", "c"],
        ["evaluate", "--model", LONG, "--benchmarks", "math"],
        ["train", "--output_dir", LONG, "--model_name_or_path", "a/b", "--dataset_name", "c/d"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_name_that_is_too_long_is_a_mistake_like_others(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main(command)
    last = capsys.readouterr().err.splitlines()[-1]
    assert stop.value.code == 2
    assert last.startswith(f"barl {command[0]}") and "File name too long" in last
