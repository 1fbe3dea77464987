"""`barl reproduce paper`: what it runs, what it says of the cost, and the report."""

import json
import shlex

import pytest
from rich.console import Console
from trl import ModelConfig, TrlParser

from barl_trl import cli
from barl_trl.config import BARLConfig
from barl_trl.evaluate import EvaluateArguments
from barl_trl.paper import run as paper_run
from barl_trl.paper.commands import analyses, lanes
from barl_trl.paper.cost import FLOPS, gpu_hours
from barl_trl.paper.scales import demo_scale, paper_scale
from barl_trl.train_arguments import BARLScriptArguments

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


def test_gpu_hours_by_hand():
    """1.5B, GRPO: 110 rollout batches of 5120 rollouts, 512 + 1024 tokens; nothing is scored, but
    read by a reference model.
    """
    scale = paper_scale()
    model = scale.models[0]
    operations = 110 * 5120 * (2 * 1024 + 10 * (512 + 1024)) * 1.5e9
    assert gpu_hours(scale, model, "grpo") == pytest.approx(operations / FLOPS / 3600)
    assert gpu_hours(scale, model, "barl") > gpu_hours(scale, model, "progress")
    short = 110 * 5120 * (2 * 32 + 10 * (512 + 32)) * 1.5e9
    hours = gpu_hours(scale, model, "grpo_length_controlled")
    assert hours == pytest.approx(short / FLOPS / 3600)


def test_the_plan_is_printed_first(capsys):
    cli.main(["reproduce", "paper", "--scale", "paper", "--plan", "--seeds", "1"])
    printed = capsys.readouterr().out
    assert printed.index("GPU hours") < printed.index("barl_trl.cli train")
    assert printed.count("barl_trl.cli evaluate") == 2 * (10 + 3)


def test_a_failed_command_is_named_with_the_end_of_its_output(tmp_path):
    book = paper_run.Book(tmp_path, num_threads=1)
    with pytest.raises(RuntimeError, match=r"train a failed, see .*train-a.txt:\n.*oh no"):
        book.run(paper_run.Command("train a", ["sh", "-c", "echo oh no; exit 3"]))
    book.run(paper_run.Command("train b", ["true"]))
    again = paper_run.Book(tmp_path, num_threads=1)
    again.run(paper_run.Command("train b", ["false"]))  # is done


@pytest.mark.slow
def test_two_arms_to_the_report(tmp_path):
    scale = demo_scale(tmp_path, max_steps=2)
    model = scale.models[0]._replace(arms=("barl", "grpo_length_controlled"))
    scale = scale._replace(models=[model], evaluate=[*scale.evaluate, "--limit", "10"])
    paper_run.run(scale, tmp_path, [0, 1], Console())
    report = json.loads((tmp_path / "report.json").read_text())
    assert [row["arm"] for row in report["table"]] == ["base", *model.arms]
    assert [len(row["average"]) for row in report["table"]] == [1, 2, 2]
    greedy = json.loads((tmp_path / "tiny-search-base" / "greedy" / "results.json").read_text())
    accuracy = greedy["benchmarks"]["search"]["accuracy"]
    assert report["table"][0]["search"] == [100 * accuracy]
    assert len(report["figures"]) == 6
    assert all((tmp_path / figure["file"]).exists() for figure in report["figures"])
    assert (tmp_path / "report.html").stat().st_size > 100_000
    assert shlex.join(scale.train) in (tmp_path / "report.md").read_text()
