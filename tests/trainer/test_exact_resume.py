"""A run that is killed and resumed reaches the parameters of an undisturbed one."""

import json
import os
import signal
import subprocess
from functools import partial

import pytest
import torch
import yaml
from safetensors.torch import load_file

from barl_trl import cli
from barl_trl.trainer.exact_resume import checkpoint_to_resume

from ..distributed.launching import launch
from ..paths import ROOT
from ..preloaded import PRELOADED

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
    # transformers averages the loss over the steps since the log or the start
    others = ("seconds", "time", "runtime", "loss")
    return [
        {
            name: value
            for name, value in log.items()
            if not any(part in name for part in others) and value is not None
        }
        for log in state["log_history"]
        if "loss" in log
    ]


@pytest.mark.parametrize("method", ["barl", "grpo"])
def test_killed_in_the_middle_of_a_rollout_batch(tmp_path, train, method):
    whole = train("whole", "--method", method)
    train("broken", "--method", method, killed_at=12)
    assert sorted(path.name for path in (tmp_path / "broken").glob("checkpoint-*")) == [
        "checkpoint-10",
        "checkpoint-5",
    ]
    resumed = train("broken", "--method", method, "--resume_from_checkpoint", "true")
    expected = parameters(whole)
    for name, value in parameters(resumed).items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=0)
    for log, undisturbed in zip(history(resumed), history(whole), strict=True):
        assert log == pytest.approx(undisturbed, rel=1e-6, nan_ok=True)
    # step 12 is generated for twice: the first time its process is killed
    steps = prompts(tmp_path, "broken")
    assert [step for step, *_ in steps] == [0, 4, 8, 12, 12]
    assert [steps[k] for k in (0, 1, 2, 4)] == prompts(tmp_path, "whole")


@pytest.mark.parametrize(
    "config",
    [
        "cpu/ddp.yaml",
        pytest.param("cpu/zero2.yaml", marks=pytest.mark.slow),
        pytest.param("cpu/zero3.yaml", marks=pytest.mark.slow),
        pytest.param("cpu/fsdp2.yaml", marks=pytest.mark.slow),
    ],
)
def test_killed_on_two_processes(tmp_path, train, config):
    options = {"per_device_train_batch_size": 1, "log_completions": False}
    options["launcher"] = partial(launch, config)
    whole = train("whole", **options)
    train("broken", killed_at=12, **options)
    resumed = train("broken", "--resume_from_checkpoint", "true", **options)
    expected = parameters(whole)
    for name, value in parameters(resumed).items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-6)
    for log, undisturbed in zip(history(resumed), history(whole), strict=True):
        assert log == pytest.approx(undisturbed, rel=1e-4, abs=1e-6)
    # each process notes its own, and one may be killed before it does
    noted = [{str(note) for note in prompts(tmp_path, name)} for name in ("broken", "whole")]
    assert noted[0] == noted[1]


def test_rollouts_that_were_trained_on_wholly_are_not_kept(tmp_path, train):
    folder = train("run", max_steps=8, save_steps=4)
    sizes = [
        torch.load(folder / checkpoint / "rollouts_0_of_1.pt", weights_only=True)["rollouts"]
        for checkpoint in ("checkpoint-4", "checkpoint-8")
    ]
    assert sizes == [None, None]


@pytest.mark.parametrize("content", [None, '{"epoch": 2.5, "log_his'], ids=["none", "cut off"])
def test_an_incomplete_checkpoint_is_passed_over(tmp_path, train, content, caplog):
    whole = train("run", "--log_completions", "false")
    last = whole / "checkpoint-10"
    for name in ("checkpoint-14", "checkpoint-10"):
        state = whole / name / "trainer_state.json"
        state.unlink() if content is None else state.write_text(content)
    expected = parameters(whole)
    again = train("run", "--resume_from_checkpoint", "true", "--log_completions", "false")
    warnings = [r.getMessage() for r in caplog.records if "incomplete" in r.getMessage()]
    expected_warning = (
        f"incomplete: {whole}/checkpoint-14, {last}; resuming from {whole}/checkpoint-5"
    )
    assert [warning.removeprefix("[RANK 0] ") for warning in warnings] == [expected_warning]
    for name, value in parameters(again).items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=0)
    (last / "trainer_state.json").unlink()
    with pytest.raises(ValueError, match=r"must be complete, got .*-10 whose"):
        train("run", "--resume_from_checkpoint", str(last))


def test_false_is_no_checkpoint(tmp_path):
    for value in (None, False, "false", "False", ""):
        assert checkpoint_to_resume(value, str(tmp_path)) is None


def test_mistakes(tmp_path, train):
    with pytest.raises(ValueError, match=r"must find a complete checkpoint, got none in .*/empty"):
        train("empty", "--resume_from_checkpoint", "true")
    folder = train("run", max_steps=5, log_completions=False)
    (folder / "checkpoint-5" / "rollouts_0_of_1.pt").rename(
        folder / "checkpoint-5" / "rollouts_0_of_2.pt"
    )
    with pytest.raises(ValueError, match="must have been saved by BARLTrainer on 1 processes"):
        train("run", "--resume_from_checkpoint", "true")
