"""`barl train` as users start it: a recipe, a local model folder, a local data file."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch

from barl_trl import cli
from barl_trl.synthetic.search import TINY_MODEL_DIR, search_rows

from ..distributed.launching import launch


def logs(folder):
    return json.loads((folder / "checkpoint-2" / "trainer_state.json").read_text())["log_history"]


ARMS = ["barl", "progress", "grpo", "grpo_length_controlled"]


@pytest.mark.parametrize("method", ARMS)
def test_trains_on_the_problem_file(tmp_path, recipe, method):
    cli.main(["train", "--config", recipe(max_completion_length=40), "--method", method])
    log = logs(tmp_path / "out")[0]
    assert (tmp_path / "out" / "model.safetensors").exists()
    assert ("barl/value" in log) == (method in ("barl", "progress"))
    longest = 32 if method == "grpo_length_controlled" else 40
    assert log["completions/max_length"] == longest
    if method == "progress":
        assert log["barl/hypotheses_per_prompt"] == 1.0


NOTES = []


def noted(prompts, completions, **_):
    """A reward that takes notes of rollouts."""
    NOTES.append((prompts, completions))
    return [0.0] * len(prompts)


def test_all_arms_get_the_same_prompts_and_the_same_first_rollouts(tmp_path, recipe):
    rollouts = {}
    for method in ARMS:
        NOTES.clear()
        rewards = ["--reward_funcs", "accuracy_reward", "tests.commands.test_train.noted"]
        cli.main(["train", "--config", recipe(seed=3, max_steps=3), *rewards, "--method", method])
        rollouts[method] = list(NOTES)
    prompts = [[batch[0] for batch in notes] for notes in rollouts.values()]
    assert len(prompts[0]) == 3
    assert prompts == [prompts[0]] * len(ARMS)
    first = [notes[0][1] for notes in rollouts.values()]
    assert first == [first[0]] * len(ARMS)  # of 16 tokens, also for the length-controlled


def test_the_demos_model_trains_on_the_problem_file(tmp_path, recipe):
    plain = {"model_name_or_path": str(TINY_MODEL_DIR), "prompt_template": "{problem}\n"}
    cli.main(["train", "--config", recipe(**plain)])
    assert logs(tmp_path / "out")[0]["barl/hypotheses_per_prompt"] >= 1


@pytest.fixture
def search_recipe(tmp_path, recipe):
    """The demo's model on problems of a file with Big-Math's columns, and held-out ones."""

    def write(**settings):
        for name, held_out in {"train": False, "held_out": True}.items():
            rows = [
                {"problem": row["prompt"].strip(), "answer": row["solution"], "source": "search"}
                | {"llama8b_solve_rate": n / 10}
                for n, row in enumerate(search_rows(11, seed=5, held_out=held_out))
            ]
            (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return recipe(
            model_name_or_path=str(TINY_MODEL_DIR),
            prompt_template="{problem}\n",
            dataset_name=str(tmp_path / "train.jsonl"),
            max_completion_length=64,
            **settings,
        )

    return write


EVALUATION = ["--eval_strategy", "steps", "--eval_steps", "2", "--per_device_eval_batch_size", "4"]


def test_benchmarks_are_evaluated_during_training(tmp_path, search_recipe):
    benchmarks = f"search={tmp_path}/held_out.jsonl,seen={tmp_path}/train.jsonl"
    best = ["--metric_for_best_model", "search/accuracy", "--load_best_model_at_end", "true"]
    best += ["--save_steps", "2"]
    options = ["--eval_benchmarks", benchmarks, *EVALUATION, *best]
    cli.main(["train", "--config", search_recipe(), *options])
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    (log,) = [log for log in state["log_history"] if "eval_accuracy" in log]
    assert log["step"] == 2
    assert 0 < log["eval_search/accuracy"] == state["best_metric"]
    both = log["eval_search/accuracy"], log["eval_seen/accuracy"]
    assert log["eval_accuracy"] == pytest.approx(sum(both) / 2)
    assert "eval_reward" not in log
    assert "| eval_search/accuracy |" in (tmp_path / "out" / "README.md").read_text()
    figures = ["--output_dir", str(tmp_path / "curves")]
    cli.main(["analyze", "curves", str(tmp_path / "out"), *figures])
    assert (tmp_path / "curves" / "curves.png").exists()


def test_training_problems_are_selected(tmp_path, search_recipe, caplog):
    config = search_recipe()
    (tmp_path / "seen.jsonl").write_text((tmp_path / "train.jsonl").read_text().split("\n")[4])
    options = ["--min_solve_rate", "0.2", "--max_solve_rate", "0.8", "--deduplicate", "true"]
    options += ["--decontaminate", f"seen={tmp_path}/seen.jsonl"]
    cli.main(["train", "--config", config, *options])
    assert "(skipped: 1 in seen, 2 too_easy, 2 too_hard" in caplog.text


def test_benchmarks_without_a_time_to_evaluate_them_are_refused(search_recipe):
    with pytest.raises(ValueError, match=r"eval_strategy must be set with eval_benchmarks"):
        cli.main(["train", "--config", search_recipe(), "--eval_benchmarks", "a=b.jsonl"])


@pytest.mark.slow
@pytest.mark.parametrize("config", ["cpu/ddp.yaml", "cpu/zero3.yaml"])
def test_processes_share_the_benchmarks(tmp_path, search_recipe, config):
    # 11 problems: batches of 4 on each of two processes, then 2 and 1
    settings = search_recipe(eval_on_start=True, max_steps=1, per_device_train_batch_size=2)
    options = ["--eval_benchmarks", f"search={tmp_path}/held_out.jsonl", *EVALUATION]
    found = []
    for name, launched in {"several": config, "one": "cpu.yaml"}.items():
        output = ["--output_dir", str(tmp_path / name)]
        if name == "one":
            output += ["--per_device_train_batch_size", "4"]
        launch(launched, "barl_trl.cli", "train", "--config", settings, *options, *output)
        state = json.loads((tmp_path / name / "trainer_state.json").read_text())
        found.append(state["log_history"][0])
    assert found[0]["eval_accuracy"] == pytest.approx(found[1]["eval_accuracy"])
    assert found[0]["eval_search/mean_tokens"] == pytest.approx(found[1]["eval_search/mean_tokens"])


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
            "outcome_mode must be 'ground_truth' with method='progress', got 'hypothesis'",
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
    known = "train, plan, data, evaluate, analyze, reproduce, demo"
    with pytest.raises(SystemExit, match=f"COMMAND must be one of {known}, got 'trian'"):
        cli.main(["trian"])
