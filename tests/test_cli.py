"""The `barl` command: its commands, and what it imports before it must."""

import json
import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest

import barl_trl
from barl_trl import cli

COMMANDS = "train, recipes, plan, data, evaluate, analyze, reproduce, inspect, demo"

TRAIN = "train --dataset_name a/b --model_name_or_path a/b"
WITHOUT_TORCH = [
    ("--help", "usage: barl COMMAND"),
    ("trian", f"COMMAND must be one of {COMMANDS}, got"),
    ("train --help", "--consistency_beta"),
    ("train --dataset_name d.jsonl --step_size 0", "step_size must be at least 1, got 0"),
    ("train --dataset_name x --method ppo", "method"),
    ("train --dataset_name a/b --lerning_rate 3", "unknown option --lerning_rate: did you mean"),
    ("train --dataset_name a/b --learning_rate fast", "invalid float value: 'fast'"),
    ("train --dataset_name a/b --lr_scheduler_type consine", "invalid choice: 'consine'"),
    ("train --dataset_name a/b", "model_name_or_path must be set, got None"),
    ("train --dataset_name a/b --model_name_or_path ./no", "existing folder, got './no'"),
    ("train --dataset_name a/b --model_name_or_path no", "OWNER/NAME or an existing folder"),
    (f"{TRAIN} --dataset_name d.jsonl", "dataset_name must name an existing file, got d.jsonl"),
    (f"{TRAIN} --reward_funcs acuracy", "did you mean one of accuracy_reward"),
    (f"{TRAIN} --decontaminate m500", "did you mean math500"),
    (f"{TRAIN} --eval_benchmarks gsm8k", "eval_strategy must be set with eval_benchmarks"),
    (f"{TRAIN} --prompt_template Solve", "prompt_template must contain {problem}"),
    (f"{TRAIN} --loss_type vespo", "loss_type must be one of"),
    (f"{TRAIN} --scale_rewards none", "scale_rewards must be 'group' with BARL, got 'none'"),
    (f"{TRAIN} --temperature 0", "temperature must be greater than 0, got 0.0"),
    (f"{TRAIN} --num_generations 3", "the nearest are gradient_accumulation_steps"),
    (f"{TRAIN} --num_generations 0", "num_generations must be at least 1, got 0"),
    (f"{TRAIN} --report_to dvclive", "must name installed trackers, got 'dvclive': install it"),
    (
        f"{TRAIN} --report_to wandbb",
        "must name installed trackers, got 'wandbb': did you mean 'wandb'?",
    ),
    (f"{TRAIN} --method grpo --credit rloo", "credit must be left out with method='grpo'"),
    (f"{TRAIN} --method gae --outcome_mode hypothesis", "outcome_mode must be 'ground_truth' with"),
    (f"{TRAIN} --steps_per_generation 2 --prompts_per_rollout_batch 8", "must be left out with"),
    (f"{TRAIN} --config nowhere", "--config must be a YAML file or a shipped name"),
    ("plan --dataset_name a/b --model_name_or_path ./no", "existing folder, got './no'"),
    ("plan --dataset_name a/b --lerning_rate 3", "did you mean --learning_rate"),
    ("plan --help", "--num_processes"),
    ("plan --config nowhere.yaml", "nowhere.yaml"),
    ("data check --help", "--against"),
    ("data", "required: COMMAND"),
    ("data check no.jsonl", "FILE must name an existing file, got no.jsonl"),
    ("data check rows.txt --against no.jsonl", "against must be among"),
    ("evaluate --help", "--benchmarks"),
    ("evaluate --model m --benchmarks gsm8k --max_tokens 0", "max_tokens must be at least 1"),
    ("evaluate --model nowhere --benchmarks gsm8k", "model must be a Hub id as OWNER/NAME or an"),
    ("evaluate --model ./no --benchmarks gsm8k", "existing folder, got './no'"),
    ("evaluate --model a/b --benchmarks gsm8", "did you mean gsm8k"),
    ("evaluate --model a/b --benchmarks me=no.jsonl", "must name existing files, got no.jsonl"),
    ("evaluate --model a/b --benchmarks gsm8k --grader quen", "grader"),
    ("analyze --help", "efficiency"),
    ("analyze efficiency --help", "--greedy"),
    ("analyze values --help", "--consistency_beta"),
    ("analyze reflections", "required: DIR"),
    ("reproduce --help", "triplets"),
    ("reproduce triplets --help", "--iterations"),
    ("reproduce triplets --seeds 0", "must be a whole number of at least 1, got '0'"),
    ("inspect --help", "--serve"),
    ("inspect nowhere", "RUN must have records of rollouts"),
    ("demo --help", "--method"),
    ("demo --method ppo", "method"),
    ("demo --metod grpo", "did you mean --method"),
    ("demo --max_steps 0", "max_steps must be at least 1, got 0"),
    ("demo --step_size 8", "step_size must be left out, got 8"),
    ("demo --num_generations 3", "per_device_train_batch_size"),
    ("demo --output_dir used", "output_dir must be new, got used with model.safetensors of"),
]
"""Commands, and what they say; none of it needs torch or TRL, whose import takes seconds."""

SCRIPT = """
import contextlib, io, json, sys
from barl_trl.cli import main
said = []
for command in json.load(sys.stdin):
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            main(command.split())
        except (SystemExit, ValueError, OSError) as end:
            print(end, file=output)
    loaded = [name for name in ("torch", "trl.trainer", "datasets") if name in sys.modules]
    said.append((output.getvalue(), loaded))
print(json.dumps(said))
"""


def test_help_and_mistakes_need_neither_torch_nor_trl(tmp_path):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "model.safetensors").touch()
    commands = json.dumps([command for command, _ in WITHOUT_TORCH])
    program, options = [sys.executable, "-c", SCRIPT], {"capture_output": True, "text": True}
    done = subprocess.run(program, input=commands, check=True, cwd=tmp_path, **options)
    for (command, text), (said, loaded) in zip(WITHOUT_TORCH, json.loads(done.stdout), strict=True):
        assert (command, loaded) == (command, [])
        assert text in said, command


def test_the_package_is_a_command():
    command = [sys.executable, "-m", "barl_trl", "--version"]
    assert subprocess.check_output(command, text=True).startswith("barl-trl ")


def test_an_unknown_command_is_refused_with_those_there_are():
    with pytest.raises(SystemExit, match=f"COMMAND must be one of {COMMANDS}, got 'trian'"):
        cli.main(["trian"])


@pytest.mark.parametrize(
    ("argument", "encoding", "environment"),
    [("größe", "ascii", {"LC_ALL": "C", "PYTHONUTF8": "0"}), (b"gr\xf6\xdfe", "utf-8", {})],
)
def test_an_argument_that_is_no_text_is_refused_at_once(argument, encoding, environment):
    """pyarrow and safetensors refused its surrogates at the end of the work."""
    command = [sys.executable, "-m", "barl_trl", "train", "--output_dir", argument]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    said = f"barl: arguments must be text in {encoding}, got 'gr\\udc"
    assert (done.returncode, done.stderr[: len(said)]) == (2, said)


@pytest.mark.parametrize("output", ["", ">&-"])
def test_a_console_that_is_not_utf8_or_closed_ends_no_command(tmp_path, output):
    (tmp_path / "rows.jsonl").write_text('{"problem": "1 ± 1?", "answer": "é ± 値"}\n' * 2)
    ascii_console = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment = os.environ | ascii_console | {"PYTHONIOENCODING": "ascii"}
    command = f"{sys.executable} -m barl_trl data check rows.jsonl {output}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "'? ? ?'" in done.stdout or output


@pytest.mark.parametrize("command", ["train", "plan", "demo"])
def test_all_options_are_listed_on_request(command, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "--help-all"])
    assert not stop.value.code
    shown = capsys.readouterr().out
    assert "--consistency_beta" in shown and "--gradient_checkpointing" in shown


def test_a_credit_in_the_working_directory_is_found(tmp_path, monkeypatch):
    """Also by the console script, whose path does not have that directory."""
    (tmp_path / "own_credits.py").write_text("def own(rollouts):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in sys.path if path])
    options = ["--dataset_name", "d.jsonl", "--model_name_or_path", "./none"]
    with pytest.raises(SystemExit, match="model_name_or_path must be a Hub id or an existing"):
        cli.main(["plan", *options, "--credit", "own_credits.own"])
    with pytest.raises(SystemExit, match="credit must be a dotted path that can be imported"):
        cli.main(["plan", *options, "--credit", "no_credits.own"])


def test_the_version_is_told_with_those_of_the_libraries(capsys):
    cli.main(["--version"])
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"barl-trl {barl_trl.__version__}, trl {version('trl')}, transformers ")


@pytest.mark.parametrize("command", ["recipes", "recipes show demo", "--help"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_command_whose_output_nobody_reads_ends_with_one_line(command, unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "barl_trl.cli", *command.split()],
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    assert done.returncode == 128 + signal.SIGPIPE
    assert done.stderr == "barl: ended, because nothing reads its output any more.\n"
