"""A training run: a recipe, a local model folder, a local data file."""

import json
import subprocess

import pytest
from barl_trl.evaluation.templates import choose_template
from transformers import AutoTokenizer

from barl_trl import cli
from barl_trl.synthetic.search import search_rows

from .training import EVALUATION, logs

ARMS = ["barl", "progress", "grpo", "grpo_length_controlled"]


@pytest.mark.parametrize("method", ["barl", "grpo_length_controlled"])
def test_trains_on_the_problem_file(tmp_path, recipe, method):
    cli.main(["train", "--config", recipe(max_completion_length=40), "--method", method])
    log = logs(tmp_path / "out")[0]
    assert (tmp_path / "out" / "model.safetensors").exists()
    assert ("barl/value" in log) == (method == "barl")
    assert log["completions/max_length"] == (40 if method == "barl" else 32)


def test_problems_without_answers_train_on_their_lists(tmp_path, search_recipe):
    """One row has an answer; all have the hypotheses of their column."""
    path = search_recipe(credit="bayes", belief="task", hypotheses_column="candidates")
    rows = search_rows(8, seed=5, with_candidates=True)
    (tmp_path / "train.jsonl").write_text(
        "\n".join(
            json.dumps(
                {
                    "problem": row["prompt"].strip(),
                    "answer": None if n else row["solution"],
                    "candidates": row["candidates"],
                }
            )
            for n, row in enumerate(rows)
        )
    )
    reads = ["--observation_likelihood", "barl_trl.synthetic.search.observation_likelihood"]
    cli.main(["train", "--config", path, *reads, "--step_size", "12"])
    log = logs(tmp_path / "out")[0]
    assert log["barl/hypotheses_per_prompt"] == 7
    assert log["barl/unusable_truths"] == log["barl/unusable_lists"] == 0
    assert not any("barl/answer_entropy" in log for log in logs(tmp_path / "out"))  # no votes


NOTES = []


def noted(prompts, completions, **_):
    """A reward that takes notes of rollouts."""
    NOTES.append((prompts, completions))
    return [0.0] * len(prompts)


@pytest.mark.slow
def test_all_arms_get_the_same_prompts_and_the_same_first_rollouts(tmp_path, recipe):
    rollouts = {}
    for method in ARMS:
        NOTES.clear()
        rewards = ["--reward_funcs", "accuracy_reward", "tests.commands.test_train_run.noted"]
        folder = ["--output_dir", str(tmp_path / method)]
        settings = ["--config", recipe(seed=3, max_steps=3), "--method", method]
        cli.main(["train", *settings, *rewards, *folder])
        rollouts[method] = list(NOTES)
        log = logs(tmp_path / method)[0]
        assert ("barl/value" in log) == (method in ("barl", "progress"))
        if method == "progress":
            assert log["barl/hypotheses_per_prompt"] == 1.0
    prompts = [[batch[0] for batch in notes] for notes in rollouts.values()]
    assert len(prompts[0]) == 3
    assert prompts == [prompts[0]] * len(ARMS)
    first = [notes[0][1] for notes in rollouts.values()]
    assert first == [first[0]] * len(ARMS)  # of 16 tokens, also for the length-controlled


def test_a_checkpoint_says_how_its_model_was_asked(tmp_path, recipe):
    cli.main(["train", "--config", recipe(system_prompt="Be brief.", max_steps=1)])
    for folder in (tmp_path / "out", tmp_path / "out" / "checkpoint-1"):
        template = choose_template("auto", AutoTokenizer.from_pretrained(folder))
        assert (template.name, template.system_prompt) == ("as trained", "Be brief.")


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


def test_lora_evaluation_and_resume(tmp_path, recipe):
    settings = recipe(
        use_peft=True, lora_target_modules="all-linear", lora_r=4, eval_strategy="steps"
    )
    held_out = ["--dataset_test_split", "train[:2]", "--eval_steps", "2"]
    cli.main(["train", "--config", settings, *held_out, "--per_device_eval_batch_size", "4"])
    assert (tmp_path / "out" / "adapter_model.safetensors").exists()
    assert any("eval_reward" in log for log in logs(tmp_path / "out"))
    for folder in (tmp_path / "out", tmp_path / "out" / "checkpoint-1"):
        card = (folder / "README.md").read_text()
        assert "### Settings" in card
        assert "More Information Needed" not in card  # PEFT's

    checkpoint = str(tmp_path / "out" / "checkpoint-1")
    again = ["--resume_from_checkpoint", checkpoint, "--output_dir", str(tmp_path / "again")]
    cli.main(["train", "--config", settings, *again, "--eval_strategy", "no"])
    assert [log["step"] for log in logs(tmp_path / "again") if "loss" in log] == [1, 2]


def test_resuming_with_other_data_or_another_optimizer_ends_in_one_line(recipe, capsys):
    settings = ["train", "--config", recipe(max_completion_length=4, max_steps=1)]
    cli.main(settings)
    resume = [*settings, "--resume_from_checkpoint", "true", "--max_steps", "2"]
    for option, said in {
        ("--dataset_train_split", "train[1:]"): "to resume from it exactly, got data set ",
        ("--optim", "adafactor"): "optim must be that of ",
    }.items():
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main([*resume, *option])
        last = capsys.readouterr().err.splitlines()[-1]
        assert ended.value.code == 2 and last.startswith("barl train: ")
        assert said in last


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


def test_a_tokenizer_without_chat_template_needs_a_prompt_template(
    recipe, model_path, tokenizer, tmp_path
):
    plain = tmp_path / "plain"
    subprocess.run(["cp", "-r", model_path, str(plain)], check=True)
    (plain / "chat_template.jinja").unlink()
    with pytest.raises(SystemExit, match="prompt_template must be set, got None"):
        cli.main(["train", "--config", recipe(model_name_or_path=str(plain))])
    settings = recipe(model_name_or_path=str(plain), prompt_template="{problem}\n")
    cli.main(["train", "--config", settings])


def test_a_secret_is_written_nowhere(tmp_path, recipe, capfd):
    secrets = {
        "hub_token": "hf_canary",
        "model_init_kwargs": {"token": "hf_canary"},
        "chat_template_kwargs": {"api_key": "hf_canary"},
    }
    few = {"max_steps": 1, "num_completions_to_print": 1, "max_completion_length": 4}
    cli.main(["train", "--config", recipe(log_completions=True, **few, **secrets)])
    files = {path.name: path.read_bytes() for path in tmp_path.rglob("out/**/*") if path.is_file()}
    wanted = {"training_args.bin", "README.md", "tokenizer_config.json", "config.json"}
    assert files.keys() > wanted | {"completions_00001.parquet", "trainer_state.json"}
    assert [name for name, content in files.items() if b"canary" in content] == []
    shown = capfd.readouterr()
    assert "canary" not in shown.out + shown.err


RAISES = """def fails(prompts, trainer_state, **_):
    if trainer_state.global_step == 1:
        raise KeyError("at the second step")
    return [0.0] * len(prompts)
"""


def test_an_error_in_training_says_how_to_go_on(tmp_path, recipe, monkeypatch):
    """Here of a reward function; a full disk and lack of memory are told in the same place."""
    (tmp_path / "failing_rewards.py").write_text(RAISES)
    monkeypatch.chdir(tmp_path)
    command = ["train", "--config", recipe(reward_funcs="failing_rewards.fails", save_steps=1)]
    with pytest.raises(KeyError) as caught:
        cli.main(command)
    checkpoint = tmp_path / "out" / "checkpoint-1"
    option = f"--resume_from_checkpoint {checkpoint}"
    said = f"The last checkpoint is {checkpoint}. To go on: the same command with {option}."
    assert caught.value.__notes__ == [said]
