"""`barl reproduce paper`: what it runs, what it says of the cost, and the report."""

import json
import shlex
from argparse import ArgumentParser
from importlib import import_module

import pytest
import torch
from trl import ModelConfig, TrlParser

from barl_trl import cli
from barl_trl.commands.evaluate_arguments import EvaluateArguments
from barl_trl.commands.paper import run as paper_run
from barl_trl.commands.paper.commands import RECIPES, analyses, lanes
from barl_trl.commands.paper.cost import FLOPS, gpu_hours
from barl_trl.commands.paper.scales import demo_scale, paper_scale
from barl_trl.commands.train_arguments import BARLScriptArguments
from barl_trl.evaluation.templates import TEMPLATES
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


def test_gpu_hours_by_hand():
    """1.5B, GRPO: 110 rollout batches of 5120 rollouts, 512 + 1024 tokens; nothing is scored, but
    read by a reference model. 9881 problems: eleven times during training, then seven times.
    """
    scale = paper_scale()
    model = scale.models[0]
    hours = 1.5e9 / FLOPS / 3600
    training, evaluation = gpu_hours(scale, model, "grpo")
    assert training == pytest.approx(110 * 5120 * (2 * 1024 + 10 * (512 + 1024)) * hours)
    assert evaluation == pytest.approx(2 * 9881 * (11 * 1024 + 7 * 2048) * hours)
    assert gpu_hours(scale, model, "barl")[0] > gpu_hours(scale, model, "progress")[0]
    training, evaluation = gpu_hours(scale, model, "grpo_length_controlled")
    assert training == pytest.approx(110 * 5120 * (2 * 32 + 10 * (512 + 32)) * hours)
    assert evaluation == pytest.approx(2 * 9881 * (11 * 32 + 7 * 2048) * hours)
    assert gpu_hours(scale, model, None) == (0, pytest.approx(2 * 9881 * 7 * 2048 * hours))


def test_the_plan_is_printed_first(capsys):
    cli.main(["reproduce", "paper", "--scale", "paper", "--plan", "--seeds", "1"])
    printed = capsys.readouterr().out
    assert printed.index("GPU hours") < printed.index("barl_trl.cli train")
    assert printed.count("barl_trl.cli evaluate") == 2 * (10 + 3)


@pytest.mark.skipif(torch.accelerator.is_available(), reason="it would start")
def test_the_papers_scale_is_refused_without_a_gpu(tmp_path):
    with pytest.raises(SystemExit, match="--scale must be demo on a machine without GPUs, got pap"):
        cli.main(["reproduce", "paper", "--scale", "paper", "--output_dir", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("recipe", ["qwen2.5-math-1.5b", "qwen2.5-math-7b", "r1-distill-llama-8b"])
def test_prompts_are_the_same_in_training_and_evaluation(recipe):
    [model] = [model for model in paper_scale().models if model.recipe == recipe]
    (script_args, *_), template = (
        TrlParser((BARLScriptArguments,)).parse_args_and_config(
            ["--config", str(RECIPES / f"{recipe}.yaml")], fail_with_unknown_args=False
        ),
        TEMPLATES[model.template],
    )
    assert (script_args.system_prompt, script_args.prompt_template) == (
        template.system_prompt,
        None,
    )
    assert template.user == "{problem}"


def sh(name, script):
    return paper_run.Command(name, ["sh", "-c", script])


def test_a_failed_command_is_named_with_the_end_of_its_output(tmp_path):
    book = paper_run.Book(tmp_path, num_threads=1)
    with pytest.raises(RuntimeError, match=r"train a failed, see .*train-a.txt:\n.*oh no"):
        book.run(sh("train a", "echo oh no; exit 3"))
    book.run(sh("train b", f"[ ! -e {tmp_path}/b ] && touch {tmp_path}/b"))
    again = paper_run.Book(tmp_path, num_threads=1)
    again.run(sh("train b", f"[ ! -e {tmp_path}/b ] && touch {tmp_path}/b"))  # is done
    with pytest.raises(RuntimeError, match="train b failed"):
        again.run(sh("train b", "exit 1"))  # another one of that name


def test_a_failure_ends_what_runs_and_starts_nothing_more(tmp_path):
    book = paper_run.Book(tmp_path, num_threads=1)
    lanes = [
        [sh("a", "sleep 1; exit 1")],
        [sh("b", "sleep 100"), sh("c", "true")],
        [sh("d", "true")],
    ]
    with pytest.raises(RuntimeError, match="a failed"):
        book.run_lanes(lanes, at_once=2, advance=lambda: None)
    assert [path.stem for path in sorted((tmp_path / "logs").iterdir())] == ["a", "b"]
    assert not book.seconds


def test_a_folder_of_other_settings_is_refused(tmp_path):
    paper_run.refuse_other_settings(demo_scale(tmp_path, max_steps=80), tmp_path)
    paper_run.refuse_other_settings(demo_scale(tmp_path, max_steps=80), tmp_path)
    with pytest.raises(ValueError, match="output_dir must hold results of the same settings, got"):
        paper_run.refuse_other_settings(demo_scale(tmp_path, max_steps=60), tmp_path)


@pytest.mark.slow
def test_two_arms_to_the_report(tmp_path):
    scale = demo_scale(tmp_path, max_steps=2)
    model = scale.models[0]._replace(arms=("barl", "grpo_length_controlled"))
    scale = scale._replace(models=[model], evaluate=[*scale.evaluate, "--limit", "10"])
    paper_run.run(scale, tmp_path, [0, 1])
    report = json.loads((tmp_path / "report.json").read_text())
    assert [row["arm"] for row in report["table"]] == ["base", *model.arms]
    assert [len(row["average"]) for row in report["table"]] == [1, 2, 2]
    greedy = json.loads((tmp_path / "tiny-search-base" / "greedy" / "results.json").read_text())
    accuracy = greedy["benchmarks"]["search"]["accuracy"]
    assert report["table"][0]["search"] == [100 * accuracy]
    assert len(report["figures"]) == 6
    assert all((tmp_path / figure["file"]).exists() for figure in report["figures"])
    assert (tmp_path / "report.html").stat().st_size > 100_000
    options = shlex.join(scale.train).replace("\n", "\\n")
    assert f"| options of barl train | {options} |" in (tmp_path / "report.md").read_text()
    values = json.loads((tmp_path / "figures" / "tiny-search" / "values.json").read_text())
    assert max(row["num_responses"] for row in values["rows"]) == 60  # six to each of ten
    before = (tmp_path / "done.txt").read_text()
    paper_run.run(scale, tmp_path, [0, 1])
    assert (tmp_path / "done.txt").read_text() == before
