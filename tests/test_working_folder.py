"""No process that the package starts runs modules that lie in the working folder."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from barl_trl.synthetic.search import TINY_MODEL_DIR

BARL = str(Path(sys.executable).with_name("barl"))
NAMES = ("random", "json", "sympy", "torch", "numpy", "accelerate", "barl_trl")
NAMES += ("latex2sympy2_extended",)
TRAIN = ["train", "--model_name_or_path", str(TINY_MODEL_DIR), "--dataset_name", "rows.jsonl"]
TRAIN += ["--prompt_template", "{problem}\n", "--max_steps", "1", "--num_generations", "2"]
TRAIN += ["--per_device_train_batch_size", "2", "--max_completion_length", "8", "--step_size", "4"]
TRAIN += ["--reward_funcs", "my_rewards.mine", "--save_strategy", "no", "--report_to", "none"]


@pytest.fixture
def folder(tmp_path):
    """A working folder with traps, a data file, and a user's own module."""
    for name in NAMES:
        text = f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r} + ' ')\nraise SystemExit(9)\n"
        (tmp_path / f"{name}.py").write_text(text)
    rows = [{"problem": f"{n}+{n}?", "answer": f"{2 * n}"} for n in range(4)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    mine = "def mine(completions, **_):\n    return [1.0] * len(completions)\n"
    (tmp_path / "my_rewards.py").write_text(mine)
    return tmp_path


@pytest.mark.slow
def test_packages_that_are_not_installed(folder):
    """Libraries import what they find of them, such as `sentencepiece` and `torch_xla`."""
    trap = (folder / "random.py").read_text().replace("'random'", "__name__")
    for name in ("deepspeed", "hqq", "sentencepiece", "tiktoken", "torch_xla", "vllm", "wandb"):
        if find_spec(name) is None:
            (folder / f"{name}.py").write_text(trap)
    options = ["--model", str(TINY_MODEL_DIR), "--benchmarks", "rows=rows.jsonl"]
    options += ["--template", "{problem}\n", "--max_tokens", "4", "--output_dir", "out"]
    assert "rows" in run(folder, BARL, "evaluate", *options)


def run(folder, *command):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert not (folder / "ran").exists(), (folder / "ran").read_text()
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_grader(folder):
    text = r"from barl_trl.graders import verify; print(verify('x^2+1', '1+x^2'))"
    assert "correct=True" in run(folder, sys.executable, "-P", "-c", text)


@pytest.mark.slow
def test_a_training_of_two_processes(folder):
    run(folder, BARL, *TRAIN, "--accelerate_config", "cpu/ddp", "--num_processes", "2")
