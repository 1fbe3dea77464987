"""Mistakes in a recipe are found before a model is loaded."""

from dataclasses import fields
from importlib.util import find_spec

import pytest
from trl import ModelConfig

from barl_trl import cli
from barl_trl.commands.train_arguments import BARLScriptArguments
from barl_trl.trainer import BARLConfig


def test_benchmarks_without_a_time_to_evaluate_them_are_refused(search_recipe):
    with pytest.raises(ValueError, match=r"eval_strategy must be set with eval_benchmarks"):
        cli.main(["train", "--config", search_recipe(), "--eval_benchmarks", "a=b.jsonl"])


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"reward_funcs": ["acuracy_reward"]}, ValueError, "did you mean one of accuracy_reward"),
        ({"dataset_name": "nowhere.jsonl"}, FileNotFoundError, "must name an existing file"),
        ({"answer_column": "answers"}, ValueError, "answer_column must .* did you mean 'answer'"),
        ({"solution_column": "answer"}, ValueError, "name the file's column with answer_column"),
        ({"prompt_template": "Solve:"}, ValueError, "prompt_template must contain {problem}"),
        (
            {"prompt_template": "{problem}", "system_prompt": "Think."},
            ValueError,
            "system_prompt must be left out with prompt_template",
        ),
        ({"max_prompt_length": 1}, ValueError, "max_prompt_length must leave at least one row"),
        ({"model_name_or_path": None}, ValueError, "model_name_or_path must be set"),
        (
            {"model_name_or_path": "./nowhere"},
            ValueError,
            "model_name_or_path must be a Hub id or an existing folder, got './nowhere'",
        ),
        (
            {"eval_strategy": "steps", "eval_steps": 1},
            ValueError,
            "split must be 'train' or slices",
        ),
        ({"step_sizes": 3}, ValueError, "step_sizes"),
        (
            {"resume_from_checkpoint": True, "model_name_or_path": "nowhere"},
            ValueError,
            "resume_from_checkpoint must find a complete checkpoint, got none in",
        ),
        (
            {"output_dir": "/dev/null/out", "model_name_or_path": "nowhere"},
            ValueError,
            r"output_dir must be a folder that can be made, got '/dev/null/out' \(Not a dir",
        ),
        (
            {"method": "progress", "outcome_mode": "hypothesis"},
            ValueError,
            "outcome_mode must be 'ground_truth' with credit='progress', got 'hypothesis'",
        ),
        ({"method": "ppo"}, ValueError, "method must be one of"),
        pytest.param(
            {"use_vllm": True, "method": "grpo", "model_name_or_path": "nowhere"},
            ImportError,
            "use_vllm must be False without vLLM",
            marks=pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed"),
        ),
    ],
)
def test_mistakes_in_a_recipe(recipe, settings, error, message):
    with pytest.raises(error, match=message):
        cli.main(["train", "--config", recipe(**settings)])


def test_no_option_has_two_meanings():
    kinds = (BARLScriptArguments, BARLConfig, ModelConfig)
    names = [option.name for kind in kinds for option in fields(kind)]
    shared = {name for name in names if names.count(name) > 1}
    # TRL's `ModelConfig` and `GRPOConfig` share this one
    assert shared <= {"trust_remote_code"}
