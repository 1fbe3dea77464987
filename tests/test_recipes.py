"""Every recipe is read by the parser that users start, and says what the paper says."""

import re
import subprocess

import pytest
import yaml
from barl_trl.commands.plan.planned_run import PlanConfig
from transformers import LlamaConfig, Qwen2Config, Qwen3Config
from trl import ModelConfig, TrlParser

from barl_trl import BARLConfig, cli
from barl_trl.commands.demo import TASKS, DemoArguments
from barl_trl.commands.train.arguments import BARLScriptArguments

from .commands.qwen import rows
from .paths import ROOT
from .preloaded import PRELOADED

RECIPES = {path.stem: path for path in sorted((ROOT / "recipes").glob("*.yaml"))}
LORA = [name for name in RECIPES if name.endswith("-lora")]
PAPER_RECIPES = [path for name, path in RECIPES.items() if name[:4] != "demo" and name not in LORA]


def listed():
    """The rows of the table in docs/recipes.md, each with its cells by their column."""
    page = (ROOT / "docs" / "recipes.md").read_text()
    names, *lines = [line for line in page.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in (names, *lines)]
    return {row[0].strip("`"): dict(zip(cells[0], row, strict=True)) for row in cells[1:]}


LISTED = listed()


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
    # what ends a completion is found in the chat template
    assert (script.prompt_template, args.generation_kwargs) == (None, None)
    assert args.max_steps == rollout_batches * 1024 * 5 // 128
    assert args.vllm_importance_sampling_mode == "token_truncate"
    assert args.vllm_max_model_length == script.max_prompt_length + args.max_completion_length
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
    assert sorted(LISTED) == sorted(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_says_whether_it_was_run(name):
    was_run = LISTED[name]["run here"].startswith("yes")
    first_line = RECIPES[name].read_text().splitlines()[0]
    assert first_line.endswith(". Run here." if was_run else ". Not run here.")


def shape(config, width, mlp, layers, heads, key_value_heads, vocabulary, **others):
    """A model's configuration, with the numbers of its `config.json`."""
    return config(
        hidden_size=width,
        intermediate_size=mlp,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_value_heads,
        vocab_size=vocabulary,
        **others,
    )


TIED = {"tie_word_embeddings": True}
SHAPES = {
    "Qwen/Qwen3-0.6B": shape(Qwen3Config, 1024, 3072, 28, 16, 8, 151936, **TIED),
    "Qwen/Qwen3-1.7B": shape(Qwen3Config, 2048, 6144, 28, 16, 8, 151936, **TIED),
    "Qwen/Qwen3-4B": shape(Qwen3Config, 2560, 9728, 36, 32, 8, 151936, **TIED),
    "Qwen/Qwen2.5-Math-1.5B": shape(Qwen2Config, 1536, 8960, 28, 12, 2, 151936, **TIED),
    "Qwen/Qwen2.5-Math-7B": shape(Qwen2Config, 3584, 18944, 28, 28, 4, 152064),
    "meta-llama/Llama-3.2-3B-Instruct": shape(LlamaConfig, 3072, 8192, 28, 24, 8, 128256, **TIED),
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B": shape(LlamaConfig, 4096, 14336, 32, 32, 8, 128256),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*LORA, *(path.stem for path in PAPER_RECIPES)])
def test_the_page_has_the_figures_of_barl_plan(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model = yaml.safe_load(RECIPES[name].read_text())["model_name_or_path"]
    SHAPES[model].save_pretrained(tmp_path / model)
    devices = [] if name in LORA else ["--accelerate_config", "zero2"]
    cli.main(["plan", "--config", name, *devices])
    planned, listed = rows(capsys.readouterr().out), LISTED[name]
    prompts, rollouts = re.match(r"([\d,]+) prompts x (\d+) ", planned["rollout batch"]).groups()
    assert listed["rollout batch"] == f"{prompts.replace(',', '')} x {rollouts}"
    assert listed["optimizer steps on it"] == planned["optimizer steps on it"]
    for kind in ("generated", "scored"):
        number, unit = listed[f"tokens {kind}"].split()
        tokens = int(planned[f"tokens {kind}, at most"].split()[0].replace(",", ""))
        assert number == (f"{tokens / 1e6:.1f}" if unit == "M" else f"{tokens / 1e3:.0f}")
    assert planned["at the peak"].startswith(f"{listed['peak memory of a device']}, ")


@pytest.mark.parametrize("task", TASKS)
def test_demo_recipe_fits_its_batches(task):
    parser = TrlParser((DemoArguments, BARLConfig))
    _, args = parser.parse_args_and_config(["--config", str(TASKS[task].recipe)])
    assert args.generation_batch_size % args.num_generations == 0


def test_example_script(tmp_path, model_path):
    script = [*PRELOADED, str(ROOT / "examples" / "train_barl.py"), "--use_cpu"]
    options = ["--model", model_path, "--max_steps", "1", "--max_completion_length", "16"]
    data = ["--data", str(ROOT / "examples" / "problems.jsonl"), "--output_dir", str(tmp_path)]
    subprocess.run([*script, *options, *data], check=True, timeout=200)
    assert (tmp_path / "model.safetensors").exists()


def test_example_script_is_short():
    assert len((ROOT / "examples" / "train_barl.py").read_text().splitlines()) < 80
