"""`barl train` as users start it: a recipe, a local model folder, a local data file."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch

from barl_trl import cli
from barl_trl.synthetic.search import TINY_MODEL_DIR

from .distributed.launching import launch


def logs(folder):
    return json.loads((folder / "checkpoint-2" / "trainer_state.json").read_text())["log_history"]


@pytest.mark.parametrize("method", ["barl", "progress", "grpo"])
def test_trains_on_the_problem_file(tmp_path, recipe, method):
    cli.main(["train", "--config", recipe(), "--method", method])
    log = logs(tmp_path / "out")[0]
    assert (tmp_path / "out" / "model.safetensors").exists()
    assert ("barl/value" in log) == (method != "grpo")
    if method == "progress":
        assert log["barl/hypotheses_per_prompt"] == 1.0


def test_the_demos_model_trains_on_the_problem_file(tmp_path, recipe):
    plain = {"model_name_or_path": str(TINY_MODEL_DIR), "prompt_template": "{problem}\n"}
    cli.main(["train", "--config", recipe(**plain)])
    assert logs(tmp_path / "out")[0]["barl/hypotheses_per_prompt"] >= 1


def test_malformed_rows_are_skipped_and_counted(tmp_path, recipe, caplog):
    rows = [
        {"problem": "1+1?", "answer": "2"},
        {"problem": "", "answer": "2"},
        {"problem": "No answer?", "answer": None},
        {"problem": "Unparsable?", "answer": r"\frac{1}{"},
        {"problem": "Strange?", "answer": r"\frac\sqrt^2"},
        {"problem": "Long?", "answer": "9" * 10_000},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    cli.main(["train", "--config", recipe(dataset_name=str(path))])
    expected = (
        "2 of 6 rows kept (skipped: 1 no_answer, 1 no_problem, 1 too_long, 1 unbalanced; "
        "kept, but look at: 1 unreadable); the rows: barl data check"
    )
    assert expected in caplog.text
    assert "grad_norm" in logs(tmp_path / "out")[0]


def test_lora_evaluation_and_resume(tmp_path, recipe):
    settings = recipe(
        use_peft=True, lora_target_modules="all-linear", lora_r=4, eval_strategy="steps"
    )
    held_out = ["--dataset_test_split", "train[:2]", "--eval_steps", "2"]
    cli.main(["train", "--config", settings, *held_out, "--per_device_eval_batch_size", "4"])
    assert (tmp_path / "out" / "adapter_model.safetensors").exists()
    assert any("eval_reward" in log for log in logs(tmp_path / "out"))

    checkpoint = str(tmp_path / "out" / "checkpoint-1")
    again = ["--resume_from_checkpoint", checkpoint, "--output_dir", str(tmp_path / "again")]
    cli.main(["train", "--config", settings, *again, "--eval_strategy", "no"])
    assert [log["step"] for log in logs(tmp_path / "again") if "loss" in log] == [1, 2]


@pytest.mark.parametrize("config", ["cpu.yaml", "cpu/ddp.yaml"])
def test_starts_through_accelerate_launch(tmp_path, recipe, config):
    launch(config, "barl_trl.cli", "train", "--config", recipe())
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_batches_of_prompts_and_rollouts_are_spread_over_the_processes(tmp_path, recipe):
    settings = recipe(prompts_per_rollout_batch=4, rollouts_per_optimizer_step=16, max_steps=1)
    launch("cpu/ddp.yaml", "barl_trl.cli", "train", "--config", settings)
    args = torch.load(tmp_path / "out" / "training_args.bin", weights_only=False)
    # 16 rollouts are 2 processes x 4 rollouts x 2 micro-batches
    assert (args.generation_batch_size, args.gradient_accumulation_steps) == (16, 2)


def test_long_prompts_are_left_out_and_counted(tmp_path, recipe, caplog):
    cli.main(["train", "--config", recipe(), "--max_prompt_length", "150"])
    assert re.search(r"\d+ of 248 rows left out: prompt of more than", caplog.text)


def test_one_reward_function_needs_no_list(tmp_path, recipe):
    cli.main(["train", "--config", recipe(reward_funcs="format_reward", max_steps=1, save_steps=2)])
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_a_reward_function_of_the_users_by_dotted_path(tmp_path, recipe, monkeypatch):
    (tmp_path / "my_rewards.py").write_text(
        "def one(completions, **_): return [1.0 for _ in completions]"
    )
    monkeypatch.chdir(tmp_path)
    cli.main(["train", "--config", recipe(), "--reward_funcs", "accuracy_reward", "my_rewards.one"])
    assert logs(tmp_path / "out")[0]["rewards/one/mean"] == 1.0


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
            {"eval_strategy": "steps", "eval_steps": 1},
            ValueError,
            "split must be 'train' or slices",
        ),
        ({"step_sizes": 3}, ValueError, "step_sizes"),
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


def test_a_tokenizer_without_chat_template_needs_a_prompt_template(
    recipe, model_path, tokenizer, tmp_path
):
    plain = tmp_path / "plain"
    subprocess.run(["cp", "-r", model_path, str(plain)], check=True)
    (plain / "chat_template.jinja").unlink()
    with pytest.raises(ValueError, match="prompt_template must be set, got None"):
        cli.main(["train", "--config", recipe(model_name_or_path=str(plain))])
    settings = recipe(model_name_or_path=str(plain), prompt_template="{problem}\n")
    cli.main(["train", "--config", settings])


def test_help_needs_no_heavy_imports():
    code = "import sys, barl_trl.cli as c; c.main(['--help']); assert 'torch' not in sys.modules"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "barl COMMAND" in out.stdout


def test_unknown_command():
    known = "train, plan, data, reproduce, demo"
    with pytest.raises(SystemExit, match=f"COMMAND must be one of {known}, got 'trian'"):
        cli.main(["trian"])
