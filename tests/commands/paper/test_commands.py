"""The commands of the experiments: each takes its options, and each run is there once."""

from argparse import ArgumentParser
from importlib import import_module

import pytest
from trl import ModelConfig, TrlParser

from barl_trl.commands.evaluate_arguments import EvaluateArguments
from barl_trl.commands.paper.commands import analyses, lanes
from barl_trl.commands.paper.scales import demo_scale, paper_scale
from barl_trl.commands.train_arguments import BARLScriptArguments
from barl_trl.trainer.barl_config import BARLConfig

CPU = ["--bf16", "false", "--use_cpu", "true"]


def options_of(command):
    return command.argv[command.argv.index("barl_trl.cli") + 2 :]


def test_every_arm_and_seed_is_trained_and_evaluated_once(tmp_path):
    scale = paper_scale()
    commands = [c for lane in lanes(scale, tmp_path, [1, 2, 3]) for c in lane]
    names = [command.name for command in commands]
    assert len(names) == len(set(names))
    # arms: four of the 1.5B model, three of the others; and the three base models
    runs = (4 + 3 + 3) * 3
    assert sum(name.startswith("train") for name in names) == runs
    assert sum(name.startswith("evaluate") for name in names) == 2 * (runs + 3)
    assert len(list(analyses(scale, tmp_path, [1, 2, 3]))) == 4 * 3


@pytest.mark.parametrize("make", [lambda path: demo_scale(path, 80), lambda _: paper_scale()])
def test_the_commands_take_their_options(tmp_path, make):
    train = TrlParser((BARLScriptArguments, BARLConfig, ModelConfig))
    evaluate = TrlParser((EvaluateArguments,))
    for lane in lanes(make(tmp_path), tmp_path, [0]):
        for command in lane:
            if command.name.startswith("train"):
                options = [*options_of(command), *CPU, "--per_device_train_batch_size", "128"]
                script_args, args, _ = train.parse_args_and_config(options)
                assert f"-{script_args.method}-seed{args.seed}" in args.output_dir
            else:
                evaluate.parse_args_and_config(options_of(command))
    for command in analyses(make(tmp_path), tmp_path, [0]):
        name, *options = options_of(command)
        parser = ArgumentParser()
        parser.add_argument("--output_dir")
        import_module(f"barl_trl.commands.analyses.{name}").add_options(parser)
        parser.parse_args(options)


def test_a_run_that_was_stopped_goes_on(tmp_path):
    """Its command is known by the same key, so it is run once; `barl train` finds checkpoints."""
    scale = demo_scale(tmp_path, 80)
    commands = [command for lane in lanes(scale, tmp_path, [1]) for command in lane]
    training = next(command for command in commands if command.name.startswith("train"))
    assert training.resume == ["--resume_from_checkpoint", "auto"]
    assert "auto" not in training.key
