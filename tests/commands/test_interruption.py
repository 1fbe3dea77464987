"""Ctrl-C and SIGTERM end a command with one line, which says what is kept and how to go on."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
from safetensors.torch import load_file

from barl_trl import cli
from barl_trl.commands.shell.interruption import Interrupted, raised

SIGNALS = {"Ctrl-C": signal.SIGINT, "SIGTERM": signal.SIGTERM}
STATUS = {"Ctrl-C": -signal.SIGINT, "SIGTERM": 143}
ENDED = """import signal, sys
from barl_trl.commands.shell.interruption import ended_in_one_line
with ended_in_one_line("demo"):
    signal.raise_signal(int(sys.argv[1]))
"""


@pytest.fixture(autouse=True)
def _no_traceback_hook(monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)


def interrupted(name, *command):
    """Runs a command in this process, during which the signal of that name comes."""
    expected = KeyboardInterrupt if name == "Ctrl-C" else SystemExit
    with pytest.raises(expected) as caught:
        cli.main([*command])
    if name == "SIGTERM":
        assert caught.value.code == 143
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def line_of(capsys):
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "ended by" in line]
    return line


AT = {}


def told(prompts, trainer_state, **_):
    """A reward during which a signal comes, at a step."""
    if trainer_state.global_step == AT.get("step"):
        signal.raise_signal(SIGNALS[AT["signal"]])
    return [0.0] * len(prompts)


@pytest.fixture
def train(recipe, monkeypatch):
    """The command of a training, for a signal at a step."""

    def command(name, step, **settings):
        monkeypatch.setitem(AT, "signal", name)
        monkeypatch.setitem(AT, "step", step)
        rewards = ["accuracy_reward", "tests.commands.test_interruption.told"]
        path = recipe(reward_funcs=rewards, **{"max_steps": 4, "save_steps": 1} | settings)
        return ["train", "--config", path]

    return command


@pytest.mark.slow
def test_a_training_goes_on_with_the_option_that_is_said(tmp_path, train, capsys):
    interrupted("SIGTERM", *(command := train("SIGTERM", 2)))
    out = tmp_path / "out"
    option = ["--resume_from_checkpoint", "auto"]
    assert line_of(capsys) == (
        f"barl train: ended by SIGTERM. The last checkpoint is {out}/checkpoint-2. To go on: the "
        f"same command with {' '.join(option)}."
    )
    AT.clear()
    cli.main([*command, *option])
    assert json.loads((out / "trainer_state.json").read_text())["global_step"] == 4


def test_before_the_first_checkpoint(train, capsys):
    interrupted("Ctrl-C", *train("Ctrl-C", 0))
    assert line_of(capsys) == "barl train: ended by Ctrl-C. To start again: the same command."


@pytest.mark.slow
def test_a_checkpoint_is_saved_if_wanted(tmp_path, train, capsys):
    """At the end of the rollout batch; the run that goes on reaches the same parameters."""
    name = "Ctrl-C"
    settings = {"save_strategy": "no", "steps_per_generation": 2, "max_steps": 6}
    whole = train(name, -1, **settings, output_dir=str(tmp_path / "whole"))
    cli.main(whole)
    command = [*train(name, 2, **settings), "--save_on_interrupt", "true"]
    interrupted(name, *command)
    assert [path.name for path in (tmp_path / "out").glob("checkpoint-*")] == ["checkpoint-4"]
    error = capsys.readouterr().err
    announced = (
        f"barl train: {name}: a checkpoint is saved after this rollout batch. A second one ends at"
    )
    assert announced in error
    AT.clear()
    cli.main([*command, "--resume_from_checkpoint", f"{tmp_path}/out/checkpoint-4"])
    parameters = load_file(tmp_path / "out" / "model.safetensors")
    for key, value in load_file(tmp_path / "whole" / "model.safetensors").items():
        torch.testing.assert_close(parameters[key], value, rtol=0, atol=0)


def test_a_second_signal_ends_at_once():
    seen = []
    with raised(seen.append):
        signal.raise_signal(signal.SIGINT)
        assert seen == [signal.SIGINT]
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGTERM)
    assert seen == [signal.SIGINT]


@pytest.mark.parametrize("number", SIGNALS.values())
def test_a_fork_is_ended_as_any_process(number):
    context = multiprocessing.get_context("fork")
    runs = context.Event()  # Python forgets signals that reach a fork before it runs

    def work():
        runs.set()
        time.sleep(100)

    with raised():
        child = context.Process(target=work)
        child.start()
        runs.wait()
        os.kill(child.pid, number)
        child.join()
    assert child.exitcode == -number


def test_what_a_shell_lets_ignore_ctrl_c_ignores_it():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with raised():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_an_evaluation_goes_on_with_the_same_command(tmp_path, model_path, capsys):
    problems = [{"problem": f"{n}+{n}?", "answer": str(2 * n)} for n in range(200)]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, problems)))
    command = ["evaluate", "--model", model_path, "--benchmarks", f"mine={tmp_path}/mine.jsonl"]
    command += ["--output_dir", str(tmp_path / "out"), "--max_tokens", "4", "--batch_size", "1"]
    responses = tmp_path / "out" / "mine.jsonl"

    def tell():
        while not (responses.exists() and responses.stat().st_size):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=tell)
    thread.start()
    interrupted("SIGTERM", *command)
    thread.join()
    line, so_far = line_of(capsys), len(responses.read_text().splitlines())
    assert f"The responses so far are kept in {tmp_path}/out. To go on: the same command." in line
    assert 0 < so_far < 200
    cli.main(command)
    assert len(responses.read_text().splitlines()) == 200


@pytest.mark.parametrize("name", SIGNALS)
def test_a_process_ends_as_the_signal_ends_processes(name):
    command = [sys.executable, "-c", ENDED, str(int(SIGNALS[name]))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == STATUS[name]
    assert done.stderr == f"barl demo: ended by {name}. To start again: the same command.\n"


@pytest.mark.parametrize("rank", ["0", "1"])
def test_of_several_processes_one_says_it(rank):
    done = subprocess.run(
        [sys.executable, "-c", ENDED, str(int(signal.SIGTERM))],
        env=os.environ | {"RANK": rank},
        capture_output=True,
        text=True,
    )
    assert done.returncode == -signal.SIGTERM
    assert done.stderr.count("\n") == (rank == "0")
