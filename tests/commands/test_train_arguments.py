"""Mistakes in a recipe are found before a model is loaded."""

import sys
from dataclasses import fields
from importlib.util import find_spec

import pytest
import torch
from trl import ModelConfig

from barl_trl import cli
from barl_trl.commands.train import run
from barl_trl.commands.train.arguments import BARLScriptArguments
from barl_trl.trainer import BARLConfig

from ..paths import ROOT


@pytest.mark.skipif(torch.accelerator.is_available(), reason="has a GPU")
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("", "on the CPU in float32 (--use_cpu True --bf16 False)."),
        ("bf16: true", "on the CPU in bfloat16 (--use_cpu True --bf16 True)."),
        ("dtype: bfloat16", "on the CPU in bfloat16 (--use_cpu True --bf16 False)."),
        ("dtype: auto", "on the CPU in its own dtype (--use_cpu True --bf16 False)."),
    ],
)
def test_without_a_gpu_the_cpu_and_float32_are_the_defaults_and_are_said_before_training(
    tmp_path, capsys, monkeypatch, setting, said, model_path
):
    monkeypatch.setattr(run, "_train_and_save", lambda *_: print("trains", file=sys.stderr))
    recipe, data = tmp_path / "recipe.yaml", ROOT / "examples" / "problems.jsonl"
    recipe.write_text(f"dataset_name: {data}\nmodel_name_or_path: {model_path}\n{setting}\n")
    output = ["--output_dir", str(tmp_path / "out")]
    for given, where in {"": "no GPU was found, so the", "--use_cpu true": "the"}.items():
        cli.main(["train", "--config", str(recipe), *output, *given.split()])
        note = f"barl train: {where} model is trained {said}\ntrains\n"
        assert capsys.readouterr().err.endswith(note)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"answer_column": "answers"},
            "did you mean --answer_column 'answer'",
        ),
        ({"solution_column": "answer"}, "name the file's column with answer_column"),
        (
            {"prompt_template": "{problem}", "system_prompt": "Think."},
            "system_prompt must be left out with prompt_template",
        ),
        ({"max_prompt_length": 1}, "max_prompt_length must leave at least one row"),
        (
            {"eval_strategy": "steps", "eval_steps": 1},
            "split must be 'train' or slices",
        ),
        (
            {"resume_from_checkpoint": True, "model_name_or_path": "no/where"},
            "resume_from_checkpoint must find a complete checkpoint, got none in",
        ),
        (
            {"output_dir": "/dev/null/out", "model_name_or_path": "no/where"},
            r"output_dir must be a folder that can be made, got '/dev/null/out' \(Not a dir",
        ),
        pytest.param(
            {"use_vllm": True, "method": "grpo", "model_name_or_path": "no/where"},
            "use_vllm must be False without vLLM",
            marks=pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed"),
        ),
    ],
)
def test_mistakes_in_a_recipe(recipe, settings, message):
    with pytest.raises(SystemExit, match=f"barl train: .*{message}"):
        cli.main(["train", "--config", recipe(**settings)])


def test_no_option_has_two_meanings():
    kinds = (BARLScriptArguments, BARLConfig, ModelConfig)
    names = [option.name for kind in kinds for option in fields(kind)]
    shared = {name for name in names if names.count(name) > 1}
    # TRL's `ModelConfig` and `GRPOConfig` share this one
    assert shared <= {"trust_remote_code"}
