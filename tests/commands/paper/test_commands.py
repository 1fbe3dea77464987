"""The commands of the experiments: each takes its options, and each run is there once."""

import os
from argparse import ArgumentParser
from importlib import import_module

import psutil
import pytest
from trl import ModelConfig, TrlParser

from barl_trl.commands.evaluate.arguments import EvaluateArguments
from barl_trl.commands.reproduce.paper.commands import Command, stages
from barl_trl.commands.reproduce.paper.scales import demo_scale, paper_scale
from barl_trl.commands.shell.jobs import run_jobs
from barl_trl.commands.train.arguments import BARLScriptArguments
from barl_trl.trainer.config import BARLConfig

CPU = ["--bf16", "false", "--use_cpu", "true"]


def options_of(command):
    return command.argv[command.argv.index("barl_trl.cli") + 2 :]


def test_every_arm_and_seed_is_trained_and_evaluated_once(tmp_path):
    scale = paper_scale()
    *runs_and_responses, figures = stages(scale, tmp_path, [1, 2, 3])
    names = [command.name for stage in runs_and_responses for command in stage]
    assert len(names) == len(set(names))
    # arms: four of the 1.5B model, three of the others; and the three base models
    runs = (4 + 3 + 3) * 3
    assert sum(name.startswith("train") for name in names) == runs
    assert sum(name.startswith("evaluate") for name in names) == 2 * (runs + 3)
    assert len(figures) == 4 * 3


@pytest.mark.parametrize("make", [demo_scale, lambda _: paper_scale()])
def test_the_commands_take_their_options(tmp_path, make):
    train = TrlParser((BARLScriptArguments, BARLConfig, ModelConfig))
    evaluate = TrlParser((EvaluateArguments,))
    trainings, evaluations, figures = stages(make(tmp_path), tmp_path, [0])
    for command in trainings:
        options = [*options_of(command), *CPU, "--per_device_train_batch_size", "128"]
        script_args, args, _ = train.parse_args_and_config(options)
        assert f"-{script_args.method}-seed{args.seed}" in args.output_dir
    for command in evaluations:
        evaluate.parse_args_and_config(options_of(command))
    for command in figures:
        name, *options = options_of(command)
        parser = ArgumentParser()
        parser.add_argument("--output_dir")
        import_module(f"barl_trl.commands.analyze.{name}").add_options(parser)
        parser.parse_args(options)


def run(folder, name, script):
    run_jobs([Command(name, ["sh", "-c", script]).job(folder, dict(os.environ))], lambda: None)


def test_a_failed_command_is_named_with_the_end_of_its_output(tmp_path):
    with pytest.raises(RuntimeError, match=r"train a failed, see .*train-a.txt:\n.*oh no"):
        run(tmp_path, "train a", "echo oh no; exit 3")
    once = f"[ ! -e {tmp_path}/b ] && touch {tmp_path}/b"
    run(tmp_path, "train b", once)
    run(tmp_path, "train b", once)  # is done
    with pytest.raises(RuntimeError, match="train b failed"):
        run(tmp_path, "train b", "exit 1")  # another one of that name


def test_a_failure_ends_what_runs(tmp_path):
    number = f"1000.{os.getpid()}"
    scripts = {"a": "sleep 1; exit 1", "b": f"sleep {number}"}
    jobs = [
        Command(name, ["sh", "-c", script]).job(tmp_path, dict(os.environ))
        for name, script in scripts.items()
    ]
    with pytest.raises(RuntimeError, match="a failed"):
        run_jobs(jobs, lambda: None, at_once=2)
    commands = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
    assert not [command for command in commands if number in (command or [])]
    assert not [*(tmp_path / "done").iterdir()]
