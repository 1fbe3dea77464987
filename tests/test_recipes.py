"""Every recipe is read by the parser that users start, and says what the paper says."""

import subprocess

import pytest
from trl import ModelConfig, TrlParser

from barl_trl import BARLConfig
from barl_trl.commands.demo import DemoArguments
from barl_trl.commands.plan_config import PlanConfig
from barl_trl.commands.train_arguments import BARLScriptArguments

from .paths import ROOT
from .preloaded import PRELOADED

RECIPES = {path.stem: path for path in sorted((ROOT / "recipes").glob("*.yaml"))}
LORA = [name for name in RECIPES if name.endswith("-lora")]
PAPER_RECIPES = [path for name, path in RECIPES.items() if name not in ("demo", *LORA)]


@pytest.mark.parametrize("path", PAPER_RECIPES, ids=lambda path: path.stem)
@pytest.mark.parametrize("num_processes", [4, 8, 16])
def test_paper_recipes(path, num_processes):
    parser = TrlParser((BARLScriptArguments, PlanConfig, ModelConfig))
    options = ["--config", str(path), "--num_processes", str(num_processes)]
    script, args, _ = parser.parse_args_and_config(options)
    assert script.method == "barl"
    assert (args.step_size, args.consistency_beta, args.num_generations) == (128, 1.0, 5)
    assert args.generation_batch_size == 1024 * 5
    assert 8 * args.gradient_accumulation_steps * num_processes == 128
    assert args.per_device_train_batch_size == 8
    rollout_batches = 60 if "llama" in path.stem else 110
    assert args.max_steps == rollout_batches * 1024 * 5 // 128
    assert args.vllm_importance_sampling_mode == "token_truncate"
    assert (args.loss_type, args.beta, args.adam_beta2) == ("grpo", 0.0, 0.95)


@pytest.mark.parametrize("name", LORA)
def test_lora_recipes_are_for_one_gpu_and_score_behind_generation(name):
    parser = TrlParser((BARLScriptArguments, PlanConfig, ModelConfig))
    script, args, model = parser.parse_args_and_config(["--config", str(RECIPES[name])])
    assert script.method == "barl"
    assert (model.use_peft, model.lora_dropout) == (True, 0.0)
    assert args.generation_batch_size == 32 * 8 == 4 * 64
    assert args.per_device_train_batch_size * args.gradient_accumulation_steps == 64
    assert args.vllm_max_model_length == script.max_prompt_length + args.max_completion_length
    assert ("Qwen3" in model.model_name_or_path) == bool(args.chat_template_kwargs)


def test_the_page_lists_every_recipe():
    page = (ROOT / "docs" / "recipes.md").read_text()
    listed = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert sorted(listed) == sorted(RECIPES)


def test_demo_recipe_fits_its_batches():
    parser = TrlParser((DemoArguments, BARLConfig))
    _, args = parser.parse_args_and_config(["--config", str(ROOT / "recipes" / "demo.yaml")])
    assert args.generation_batch_size % args.num_generations == 0


def test_example_script(tmp_path, model_path):
    script = [*PRELOADED, str(ROOT / "examples" / "train_barl.py"), "--use_cpu"]
    options = ["--model", model_path, "--max_steps", "1", "--max_completion_length", "16"]
    data = ["--data", str(ROOT / "examples" / "problems.jsonl"), "--output_dir", str(tmp_path)]
    subprocess.run([*script, *options, *data], check=True, timeout=200)
    assert (tmp_path / "model.safetensors").exists()


def test_example_script_is_short():
    assert len((ROOT / "examples" / "train_barl.py").read_text().splitlines()) < 80
