"""`barl train` from a recipe to a saved model, as users start it."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys

import pytest
import torch
from accelerate.commands.launch import launch_command_parser
from safetensors.torch import load_file
from transformers import AutoTokenizer
from trl import ModelConfig

from barl_trl.commands import cli
from barl_trl.commands.evaluate import EvaluateArguments
from barl_trl.commands.recipes import RecipeParser, file_of
from barl_trl.commands.train import ScriptArguments, _launch_command
from barl_trl.evaluation.templates import choose_template
from barl_trl.synthetic.search import TINY_MODEL_DIR, search_rows
from barl_trl.trainer import BARLConfig

from ..distributed.launching import launch
from ..trainer.playing import call, described, dialog, save_taught
from ..trainer.test_agents import chatting, look

EVALUATION = ["--eval_strategy", "steps", "--eval_steps", "2", "--per_device_eval_batch_size", "4"]


def logs(folder):
    return json.loads((folder / "trainer_state.json").read_text())["log_history"]


def test_a_run_prints_rows_saves_its_model_and_no_secret(tmp_path, recipe, capfd):
    secrets = {"hub_token": "hf_canary", "model_init_kwargs": {"token": "hf_canary"}}
    secrets |= {"chat_template_kwargs": {"api_key": "hf_canary"}}
    path = recipe(system_prompt="Be brief.", disable_tqdm=False, logging_steps=10, **secrets)
    cli.main(["train", "--config", path, "--max_completion_length", "40"])
    log = logs(tmp_path / "out")[0]
    assert "barl/value" in log and log["completions/max_length"] == 40
    shown = capfd.readouterr()
    assert "\r" not in shown.out + shown.err and "'grad_norm'" not in shown.out
    first, truth, *rows = shown.out.splitlines()[1:6]
    assert r"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nSolve" in first
    assert truth.startswith("true answer: ")
    assert [row.split()[0] for row in rows] == ["step", "2/2", "2"]  # the last has a row
    if not torch.accelerator.is_available():
        assert "CPU" in shown.out.splitlines()[0]
    files = {path.name: path.read_bytes() for path in tmp_path.rglob("out/**/*") if path.is_file()}
    wanted = {"training_args.bin", "README.md", "tokenizer_config.json", "trainer_state.json"}
    assert files.keys() > wanted | {"model.safetensors"}
    assert [name for name, content in files.items() if b"canary" in content] == []
    assert "canary" not in shown.out + shown.err
    for folder in (tmp_path / "out", tmp_path / "out" / "checkpoint-1"):  # how it was asked
        template = choose_template("auto", AutoTokenizer.from_pretrained(folder))
        assert (template.name, template.system_prompt) == ("as trained", "Be brief.")


def parsed(command):
    parser = RecipeParser(ScriptArguments, BARLConfig, ModelConfig, prog="barl train")
    parser.set_defaults(use_cpu=True, bf16=False)
    return parser.parse_args_and_config([*shlex.split(command), "--dataset_name", "d.jsonl"])


def test_without_a_gpu_the_cpu_trains_in_float32_if_the_recipe_says_nothing(tmp_path):
    def written(text):
        (tmp_path / "recipe.yaml").write_text(text)
        return parsed(f"--config '{tmp_path}/recipe.yaml'")

    _, args, model = written("learning_rate: 1e-3\nlora_target_modules: q_proj\nmax_steps: 3")
    assert (args.use_cpu, args.bf16, args.max_steps) == (True, False, 3)
    assert args.learning_rate == 1e-3  # YAML takes it for a text
    assert model.lora_target_modules in ("q_proj", ["q_proj"])
    script, args, _ = written("bf16: true\nreward_funcs: []\nconsistency_beta: .inf")
    assert (args.bf16, script.reward_funcs, args.consistency_beta) == (True, [], float("inf"))


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (r"{problem}\n", "{problem}\n"),
        (r"Q: {problem}\n\nnumber: ", "Q: {problem}\n\nnumber: "),
        (r"{problem}\nAnswer: \boxed", "{problem}\nAnswer: \\boxed"),
        (r"$x \neq \nu_1$, \text{{problem}}\\n", r"$x \neq \nu_1$, \text{{problem}}\\n"),
    ],
)
def test_a_line_break_between_single_quotes_is_one(tmp_path, typed, meant):
    """In a shell and in YAML, where it would be a backslash and an n."""
    (tmp_path / "recipe.yaml").write_text(f"prompt_template: '{typed}'\nelicitation: '{typed}'")
    options = f"--prompt_template '{typed}' --elicitation '{typed}'"
    for command in (options, f"--config '{tmp_path}/recipe.yaml'"):
        script, args, _ = parsed(command)
        assert script.prompt_template == args.elicitation == meant
    command = f"--model m --benchmarks b --template '{typed}' --system_prompt '{typed}'"
    parser = RecipeParser(EvaluateArguments, prog="barl evaluate")
    (args,) = parser.parse_args_and_config(shlex.split(command))
    assert args.template == args.system_prompt == meant


def test_the_hint_for_a_model_without_chat_template_can_be_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    needed = f"--model_name_or_path {TINY_MODEL_DIR} --dataset_name d.jsonl --output_dir out"
    with pytest.raises(SystemExit):
        cli.main(["train", *shlex.split(needed)])
    script, *_ = parsed(needed + " " + capsys.readouterr().err.partition("line break: ")[2])
    assert script.prompt_template == "{problem}\n"


def test_no_option_has_two_meanings_and_help_lists_ours(capsys):
    fields = [k.__dataclass_fields__ for k in (ScriptArguments, BARLConfig, ModelConfig)]
    names = [name for one in fields for name in one]
    # TRL's `ModelConfig` and `GRPOConfig` share this one
    assert {name for name in names if names.count(name) > 1} <= {"trust_remote_code"}
    for option, lists_all in (("--help", False), ("--help-all", True)):
        cli.main(["train", option])
        shown = capsys.readouterr().out
        assert all(name in shown for name in ("--step_size", "--dataset_name", "--num_processes"))
        assert ("--gradient_checkpointing" in shown) == lists_all


def test_rows_are_selected_and_keep_their_columns(tmp_path, recipe, write, monkeypatch, caplog):
    """Prompts of messages, answers in a column of another name, rewards of the user's own."""
    rows = [{"prompt": [{"role": "user", "content": f"{n}+1?"}], "gold": n + 1} for n in range(6)]
    rows = [row | {"level": "3"} for row in rows]
    rows += [rows[0], rows[1] | {"prompt": [{"role": "user", "content": "?"}], "gold": "{"}]
    seen = write("seen.jsonl", {"problem": "5+1?", "answer": "6"})
    own = "def leveled(completions, level, **kwargs):\n    return [float(one) for one in level]\n"
    (tmp_path / "own_rewards.py").write_text(own)
    monkeypatch.chdir(tmp_path)
    data = write("rows.jsonl", *rows)
    path = recipe(dataset_name=data, answer_column="gold", reward_funcs="own_rewards.leveled")
    options = ["--deduplicate", "true", "--decontaminate", f"seen={seen}", "--credit", "grpo"]
    cli.main(["train", "--config", path, *options])
    assert "5 of 8 rows kept (skipped: 1 duplicate, 1 in seen, 1 unbalanced" in caplog.text
    assert logs(tmp_path / "out")[0]["rewards/leveled/mean"] == 3
    long = ["--max_prompt_length", "150", "--max_steps", "1", "--output_dir", str(tmp_path / "b")]
    cli.main(["train", "--config", recipe(), *long])
    assert re.search(r"\d+ of 248 rows left out: prompt of more than", caplog.text)


def test_problems_without_answers_train_on_their_lists(tmp_path, search_recipe, write):
    """One row has an answer; all have the hypotheses of their column."""
    path = search_recipe(credit="bayes", belief="task", hypotheses_column="candidates", max_steps=1)
    rows = search_rows(8, seed=5, with_candidates=True)
    lists = [{"problem": r["prompt"].strip(), "candidates": r["candidates"]} for r in rows]
    first = lists[0] | {"answer": rows[0]["solution"]}
    write("train.jsonl", first, *lists[1:])
    reads = ["--observation_likelihood", "barl_trl.synthetic.search.observation_likelihood"]
    cli.main(["train", "--config", path, *reads, "--step_size", "12"])
    assert logs(tmp_path / "out")[0]["barl/hypotheses_per_prompt"] == 7


def test_lora_benchmarks_and_resume(tmp_path, search_recipe, capsys):
    benchmarks = f"search={tmp_path}/held_out.jsonl,seen={tmp_path}/train.jsonl"
    lora = {"use_peft": True, "lora_target_modules": "all-linear", "lora_r": 4}
    best = ["--metric_for_best_model", "search/accuracy", "--load_best_model_at_end", "true"]
    own = ["--dataset_test_split", "train[:2]", "--eval_benchmarks", benchmarks]
    command = ["train", "--config", search_recipe(**lora)]
    cli.main([*command, *own, *EVALUATION, *best, "--save_steps", "2"])
    assert (tmp_path / "out" / "adapter_model.safetensors").exists()
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    (log,) = [log for log in state["log_history"] if "eval_accuracy" in log]
    assert log["step"] == 2
    assert 0 < log["eval_search/accuracy"] == state["best_metric"]
    both = log["eval_search/accuracy"], log["eval_seen/accuracy"]
    assert log["eval_accuracy"] == pytest.approx(sum(both) / 2)
    assert any("eval_reward" in log for log in state["log_history"])

    resume = [*command, "--resume_from_checkpoint", "true", "--max_steps", "3"]
    cli.main(resume)
    assert [log["step"] for log in logs(tmp_path / "out") if "loss" in log] == [1, 2, 3]
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        cli.main([*resume, "--dataset_train_split", "train[1:]"])
    assert ended.value.code == 2
    assert "data set" in capsys.readouterr().err.splitlines()[-1]


class Game:
    def reset(self, hint, **row):
        self.hint, self.answer = hint, None

    @described
    def look(self, key: int) -> str:
        self.answer = self.hint
        return look(1)

    def get_reward(self) -> float:
        return float(self.answer == "12")


class KnowingGame(Game):
    def _observation_log_likelihoods(self, hypotheses, steps):
        return [[0.0 if text == "12" else -9.0 for text in hypotheses] for _ in steps]


def near(answer, hypothesis):
    return float(answer == hypothesis)


play = chatting([["Is it 3?<|im_end|>", ("No.",), "Is it 3?<|im_end|>"]] * 4, answer=["12"] * 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that calls the tool, and rows with a column of their own."""
    said = dialog("3 * 4?", call("look", key=1), look(1), r"\boxed{12}")
    folder = save_taught(tmp_path_factory.mktemp("agents"), [said], tools=[look])
    row = {"problem": "3 * 4?", "answer": "12", "hint": "12", "numbers": ["12", "7"]}
    (folder / "rows.jsonl").write_text((json.dumps(row) + "\n") * 4)
    return folder


def game(name):
    return {"environment_factory": f"{__name__}.{name}", "reward_funcs": []}


EVALUATED = {"eval_benchmarks": "games=rows.jsonl", "eval_strategy": "steps", "eval_steps": 1}
LISTED = {"hypotheses_column": "numbers", "outcome_under": f"{__name__}.near"}
AGENTS_OF = {
    "tools": {"tools": [f"{__name__}.look"]},
    "rollout_func": {"rollout_func": f"{__name__}.play"},
    "environment": game("Game") | {"credit": "belief_critic"} | EVALUATED,
    "belief": game("KnowingGame") | {"credit": "bayes", "belief": "task"} | LISTED,
}


@pytest.mark.parametrize("agent", AGENTS_OF.values(), ids=AGENTS_OF.keys())
def test_agents_of_a_recipe(folder, tmp_path, monkeypatch, recipe, agent, capfd):
    monkeypatch.chdir(folder)
    files = {"model_name_or_path": str(folder), "dataset_name": str(folder / "rows.jsonl")}
    turns = {"max_completion_length": 200, "max_tool_calling_iterations": 2, "max_steps": 1}
    path = recipe(**files, **turns, system_prompt=None, save_strategy="no", **agent)
    cli.main(["train", "--config", path])
    log = next(one for one in logs(tmp_path / "out") if "reward" in one)
    shown = capfd.readouterr().out
    for title in ("truth mass", "turn reward"):
        assert (title in shown) == (f"barl/{title.replace(' ', '_')}" in log)
    evaluated = any("eval_games/accuracy" in one for one in logs(tmp_path / "out"))
    assert evaluated == ("eval_benchmarks" in agent)
    assert log["barl/turns_per_rollout"] > 1
    assert log["reward"] > 0


AT = {}


def told(prompts, trainer_state, **_):
    """A reward during which a signal comes at a step, or that fails."""
    if trainer_state.global_step == AT.get("step"):
        signal.raise_signal(AT["signal"]) if "signal" in AT else {}["a bug"]
    return [0.0] * len(prompts)


@pytest.fixture
def train(recipe, monkeypatch):
    """The command of a training in which something happens at a step."""
    monkeypatch.setattr(sys.modules[__name__], "AT", {})
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def command(step, *signals, **settings):
        AT.update({"step": step}, **({"signal": signals[0]} if signals else {}))
        rewards = ["accuracy_reward", "tests.commands.test_train.told"]
        few = {"max_steps": 4, "save_steps": 1, "max_completion_length": 8}
        return ["train", "--config", recipe(reward_funcs=rewards, **few | settings)]

    yield command
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_a_failure_of_training_keeps_its_traceback_and_says_how_to_go_on(tmp_path, train):
    with pytest.raises(RuntimeError) as caught:
        cli.main(train(1))
    assert isinstance(caught.value.__cause__, KeyError)
    option = f"--resume_from_checkpoint {tmp_path}/out/checkpoint-1"
    assert option in str(caught.value)


@pytest.mark.parametrize("step", [0, 2])
def test_ctrl_c_ends_with_one_line_that_says_how_to_go_on(tmp_path, train, step, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(train(step, signal.SIGINT))
    assert ended.value.code == 130
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("barl train: interrupted. ")
    assert (f"--resume_from_checkpoint {tmp_path}/out/checkpoint-2" in last) == (step == 2)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_checkpoint_is_saved_on_a_signal_if_wanted(tmp_path, train, number, capsys):
    """The run that goes on reaches the same parameters."""
    settings = {"save_strategy": "no", "steps_per_generation": 2}
    cli.main(train(-1, **settings, output_dir=str(tmp_path / "whole")))
    command = [*train(2, number, **settings), "--save_on_interrupt", "true"]
    with pytest.raises(SystemExit) as ended:
        cli.main(command)
    assert ended.value.code == 130
    (option,) = re.findall(r"--resume_from_checkpoint \S+", capsys.readouterr().err)
    AT.clear()
    cli.main([*command, *option.split()])
    parameters = load_file(tmp_path / "out" / "model.safetensors")
    for key, value in load_file(tmp_path / "whole" / "model.safetensors").items():
        torch.testing.assert_close(parameters[key], value, rtol=0, atol=0)


def test_launching_gives_its_options_to_accelerate_and_the_others_to_the_command(monkeypatch):
    assert _launch_command(["--config", "demo-search", "--learning_rate", "-1"]) is None
    given = ["--config", "demo-search", "--accelerate_config=zero2", "--num_processes", "4"]
    command = _launch_command([*given, "--beta", "0"])
    assert command and command[:4] == [sys.executable, "-P", "-m", "accelerate.commands.launch"]
    parsed = launch_command_parser().parse_args(command[4:])
    assert parsed.config_file == str(file_of("accelerate_config", "zero2"))
    assert (parsed.num_processes, parsed.training_script) == (4, sys.executable)
    others = ["train", "--config", "demo-search", "--beta", "0"]
    assert parsed.training_script_args == ["-P", "-m", "barl_trl", *others]
    monkeypatch.setenv("RANK", "0")  # under a launcher nothing is launched again
    with pytest.raises(ValueError, match="num_processes"):
        _launch_command(["--num_processes", "2"])


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_a_launch_that_starts_one_process_of_several_is_told_of(tmp_path, number):
    script = tmp_path / "alone.py"
    module = "barl_trl.trainer.checks"
    script.write_text(f"from {module} import alone_in_launch\nprint(bool(alone_in_launch()))\n")
    options = ["--cpu", "--num_processes", str(number), str(script)]
    command = [sys.executable, "-m", "accelerate.commands.launch", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(number > 1)]


def test_several_processes_share_the_batches_and_one_looks_at_the_rows(tmp_path, recipe, write):
    rows = [{"problem": f"{n}+1?", "answer": "?!" if n == 0 else str(n + 1)} for n in range(5)]
    batches = {"prompts_per_rollout_batch": 4, "rollouts_per_optimizer_step": 16, "max_steps": 1}
    settings = recipe(dataset_name=write("rows.jsonl", *rows), **batches)
    done = launch("cpu/ddp.yaml", "barl_trl", "train", "--config", settings)
    assert (tmp_path / "out" / "model.safetensors").exists()
    args = torch.load(tmp_path / "out" / "training_args.bin", weights_only=False)
    # 16 rollouts are 2 processes x 4 rollouts x 2 micro-batches
    assert (args.generation_batch_size, args.gradient_accumulation_steps) == (16, 2)
    assert done.stderr.count("5 of 5 rows kept (kept, but look at: 1 unreadable ('?!'))") == 1


@pytest.mark.slow
def test_processes_share_the_benchmarks(tmp_path, search_recipe):
    # 11 problems: batches of 4 on each of two processes, then 2 and 1
    settings = search_recipe(eval_on_start=True, max_steps=1, per_device_train_batch_size=2)
    options = ["--eval_benchmarks", f"search={tmp_path}/held_out.jsonl", *EVALUATION]

    def evaluated(config, *more):
        output = tmp_path / config
        command = ["train", "--config", settings, *options, *more, "--output_dir", str(output)]
        launch(config, "barl_trl", *command)
        log = logs(output)[0]
        return [log["eval_accuracy"], log["eval_search/mean_tokens"]]

    expected = evaluated("cpu.yaml", "--per_device_train_batch_size", "4")
    for config in ("cpu/ddp.yaml", "cpu/zero3.yaml"):
        assert evaluated(config) == pytest.approx(expected)


BARL = [sys.executable, "-m", "barl_trl"]
POOR = 'mount -t tmpfs -o ro none /dev/shm && ulimit -n 64 && exec "$@"'


@pytest.mark.slow
@pytest.mark.skipif(
    subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0,
    reason="the user may not mount",
)
def test_a_run_needs_no_home_no_shared_memory_and_few_files(tmp_path, search_recipe):
    folder = tmp_path / "ünï 漢字 🎲" / ("ä" * 100)
    path = search_recipe(output_dir=str(folder), log_beliefs=True, max_steps=1)
    home = {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": ""}
    for command in (
        [*BARL, "train", "--config", path, "--accelerate_config", "cpu/ddp"],
        [*BARL, "inspect", str(folder)],
    ):
        poor = ["unshare", "--mount", "bash", "-c", POOR, "barl", *command]
        options = {"cwd": tmp_path, "env": os.environ | home}
        done = subprocess.run(poor, capture_output=True, text=True, **options)
        assert done.returncode == 0, done.stderr
    assert (folder / "model.safetensors").exists()
    assert (folder / "inspect" / "index.html").exists()
