"""Every recipe is read by the parser that users start, and says what the paper says."""

import subprocess

import pytest
from trl import ModelConfig

from barl_trl.commands.recipes import RecipeParser
from barl_trl.commands.train import ScriptArguments
from barl_trl.trainer import BARLConfig

from .paths import ROOT
from .preloaded import PRELOADED

RECIPES = {path.stem: path for path in sorted((ROOT / "recipes").glob("*.yaml"))}
LORA = [name for name in RECIPES if name.endswith("-lora")]
PAPER = [name for name in RECIPES if name[:4] != "demo" and name not in LORA]


def parsed(name):
    parser = RecipeParser(ScriptArguments, BARLConfig, ModelConfig, prog="barl train")
    given = ["--use_cpu", "--bf16", "false"]
    given += ["--dataset_name", "search.jsonl"] * name.startswith("demo")
    return parser.parse_args_and_config(["--config", name, *given])


@pytest.mark.parametrize("name", PAPER)
def test_paper_recipes(name):
    script, args, _ = parsed(name)
    assert (args.step_size, args.consistency_beta, args.num_generations) == (128, 1.0, 5)
    assert args.generation_batch_size == 1024 * 5
    assert 8 * args.gradient_accumulation_steps == 128
    assert args.per_device_train_batch_size == 8  # on 1, 2, 4, 8 and 16 processes
    rollout_batches = 60 if "llama" in name else 110
    # what ends a completion is found in the chat template
    assert (script.prompt_template, args.generation_kwargs) == (None, None)
    assert args.max_steps == rollout_batches * 1024 * 5 // 128
    assert args.vllm_importance_sampling_mode == "token_truncate"
    assert args.vllm_max_model_length == script.max_prompt_length + args.max_completion_length
    is_baseline = "grpo" in name  # whose length the paper controls, with a KL term
    assert (args.credit, args.beta) == (("grpo", 0.005) if is_baseline else ("barl", 0.0))
    assert (args.loss_type, args.adam_beta2) == ("grpo", 0.95)
    assert args.max_completion_length == (32 if is_baseline else 1024)


@pytest.mark.parametrize("name", LORA)
def test_lora_recipes_are_for_one_gpu(name):
    script, args, model = parsed(name)
    assert (args.credit, model.use_peft, model.lora_dropout) == ("barl", True, 0.0)
    assert args.generation_batch_size == 32 * 8 == 4 * 64
    assert args.per_device_train_batch_size * args.gradient_accumulation_steps == 64
    assert args.vllm_max_model_length == script.max_prompt_length + args.max_completion_length
    assert ("Qwen3" in model.model_name_or_path) == bool(args.chat_template_kwargs)


def test_example_script(tmp_path, model_path):
    script = [*PRELOADED, str(ROOT / "examples" / "train_barl.py"), "--use_cpu"]
    options = ["--model", model_path, "--max_steps", "1", "--max_completion_length", "16"]
    data = ["--data", str(ROOT / "examples" / "problems.jsonl"), "--output_dir", str(tmp_path)]
    subprocess.run([*script, *options, *data], check=True, timeout=200)
    assert (tmp_path / "model.safetensors").exists()
