"""A careless user's mistakes: each ends with exit status 2 and one line that names it."""

import shlex
import subprocess

import pytest
import transformers

from barl_trl.commands import cli
from barl_trl.synthetic.search import TINY_MODEL_DIR

from ..paths import ROOT
from ..preloaded import PRELOADED

FILES = {
    "good.yaml": f"""
model_name_or_path: {TINY_MODEL_DIR}
dataset_name: rows.jsonl
prompt_template: "{{problem}}\\n"
output_dir: out
max_steps: 1
num_generations: 4
per_device_train_batch_size: 4
max_completion_length: 16
use_cpu: true
bf16: false
""",
    "open.yaml": "dataset_name: [rows.jsonl\n",
    "list.yaml": "- dataset_name\n",
    "deep.yaml": "[" * 3_000,
    "bytes.yaml": "dataset_name: \x00\n",
    "typo.yaml": "dataset_name: rows.jsonl\nstepsize: 8\n",
    "twice.yaml": "dataset_name: rows.jsonl\nstep_size: 8\nstep_size: 9\n",
    "kind.yaml": "dataset_name: rows.jsonl\nmax_steps: 1.5\n",
    "nothing.yaml": "dataset_name: null\n",
    "mapping.yaml": "dataset_name: rows.jsonl\nenvironment_factory: {a: mine.Tool}\n",
    "choice.yaml": "dataset_name: rows.jsonl\nlr_scheduler_type: cosin\n",
    "rows.jsonl": '{"problem": "1+1?", "answer": "2"}\n{"problem": "1+2?", "answer": "3"}\n',
    "others.jsonl": '{"text": "1+1?", "label": "2"}\n',
    "empty.jsonl": "",
    "rows.txt": "1+1? 2\n",
    "notes/readme.txt": "nothing\n",
    "damaged/config.json": "{\n",
    "used/trainer_state.json": "{}",
    "used/model.safetensors": "",
    "foreign/rollouts_00000.parquet": "no parquet",
    "page/index.html": "of others",
    "broken.py": "def right(:\n",
    "mine.py": '''
weight = 3

def one_parameter(texts):
    return [1.0] * len(texts)

def observed(prompts, hypotheses, steps, **columns):
    return []

def look(query: str) -> str:
    """Look something up.

    Args:
        query: What.
    """
    return query

def play(prompts, trainer):
    return {}

def number(completions, **columns):
    return 1.0

class Tool:
    pass
''',
}
LONG = "x" * 300

TRAIN = [
    ("", "dataset_name"),
    ("good.yaml", "--config"),
    ("--config", "--config"),
    ("--config nowhere", "nowhere"),
    (f"--config {LONG}.yaml", LONG),
    ("--config=qwen3-0.6b-lroa", "qwen3-0.6b-lora?"),
    ("--config open.yaml", "open.yaml"),
    ("--config list.yaml", "list.yaml"),
    ("--config deep.yaml", "deep.yaml"),
    ("--config bytes.yaml", "bytes.yaml"),
    ("--config typo.yaml", "step_size?"),
    ("--config twice.yaml", "step_size"),
    ("--config kind.yaml", "max_steps"),
    ("--config choice.yaml", "'cosine'"),
    ("--dataset_name rows.jsonl", "model_name_or_path"),
    ("--config good.yaml --step_sze 8", "--step_size?"),
    ("--config good.yaml --lr 1e-6", "--learning_rate"),
    ("--config good.yaml --max_steps ten", "--max_steps"),
    ("--config good.yaml --learning_rate -1", "learning_rate"),
    ("--config good.yaml --credit bays", "'bayes'?"),
    ("--config good.yaml --credit mine.weight", "mine.weight"),
    ("--config good.yaml --num_generations 3", "num_generations"),
    ("--config good.yaml --scale_rewards none", "scale_rewards"),
    ("--config good.yaml --chat_template_kwargs {enable", "chat_template_kwargs"),
    ("--config good.yaml --dataset_name row.jsonl", "row.jsonl"),
    ("--config good.yaml --dataset_name rows.txt", "dataset_name"),
    ("--config good.yaml --dataset_name empty.jsonl", "empty.jsonl"),
    ("--config good.yaml --dataset_name others.jsonl", "problem_column"),
    ("--config good.yaml --dataset_name some/body", "some/body"),
    ("--config good.yaml --answer_column anser", "'anser'"),
    ("--config good.yaml --dataset_train_split tran", "tran"),
    ("--config good.yaml --eval_strategy steps --eval_steps 1", "test"),
    ("--config good.yaml --max_prompt_length 1", "max_prompt_length"),
    ("--config good.yaml --model_name_or_path notes", "notes"),
    ("--config good.yaml --model_name_or_path no/where", "no/where"),
    ("--config good.yaml --model_name_or_path damaged", "damaged"),
    (f"--dataset_name rows.jsonl --model_name_or_path {TINY_MODEL_DIR}", "prompt_template"),
    ("--config good.yaml --prompt_template problem", "prompt_template"),
    ("--config good.yaml --system_prompt Think.", "system_prompt"),
    ("--config good.yaml --solution_column answer", "solution_column"),
    ("--config good.yaml --reward_funcs acuracy_reward", "accuracy_reward"),
    ("--config good.yaml --reward_funcs broken.right", "broken.py"),
    ("--config good.yaml --reward_funcs mine.one_parameter", "one_parameter"),
    ("--config good.yaml --reward_weights 1 2", "reward_weights"),
    ("--config good.yaml --tools mine.look", "tools"),
    ("--config good.yaml --tools mine.look --rollout_func mine.play", "rollout_func"),
    ("--config good.yaml --observation_likelihood mine.observed", "belief"),
    ("--config good.yaml --eval_benchmarks mine=rows.jsonl", "eval_strategy"),
    ("--config good.yaml --decontaminate m500", "math500"),
    ("--config good.yaml --output_dir rows.jsonl", "rows.jsonl"),
    ("--config good.yaml --output_dir ''", "output_dir"),
    ("--config good.yaml --dataset_name ''", "dataset_name"),
    ("--config good.yaml --rollout_func ''", "rollout_func"),
    ("--config good.yaml --tools mine.Tool", "tools"),
    ("--config nothing.yaml", "dataset_name"),
    ("--config mapping.yaml", "environment_factory"),
    (f"--config good.yaml --output_dir {LONG}", LONG),
    ("--config good.yaml --output_dir used", "output_dir"),
    ("--config good.yaml --resume_from_checkpoint nowhere", "nowhere"),
    ("--config good.yaml --resume_from_checkpoint true", "resume_from_checkpoint"),
    ("--config good.yaml --use_peft --lora_task_type CAUSAL", "CAUSAL_LM"),
    ("--config good.yaml --attn_implementation flash_9", "flash_9"),
    ("--config good.yaml --accelerate_config zero22", "zero2?"),
    ("--config good.yaml --num_processes 0", "--num_processes"),
]
LATE = [
    ("--config good.yaml --use_peft --lora_r 0", "`r`"),
    ("--config good.yaml --use_peft --lora_target_modules q_prj", "q_prj"),
    ("--config good.yaml --report_to wandbb", "wandbb"),
    ("--config good.yaml --report_to azure_ml", "AzureML"),
]
"""Mistakes that are said when the model is loaded, by PEFT and transformers."""
OTHERS = [
    ("trian --config good.yaml", "train?"),
    ("inspect", "RUN"),
    ("inspect nowhere", "nowhere"),
    (f"inspect {LONG}", LONG),
    ("inspect used notes out", "got 3"),
    ("inspect foreign", "foreign"),
    ("inspect foreign --output rows.jsonl", "--output"),
    ("inspect foreign --output page", "page"),
    ("inspect foreign --output foreign", "--output"),
    ("inspect foreign --ouput page", "--output?"),
    ("recipes qwen3-0.6b-lroa", "qwen3-0.6b-lora?"),
    ("recipes qwen3-0.6b-lora x", "'x'"),
    ("data", "FILE"),
    ("data chek rows.jsonl", "'chek'"),
    ("data check none.jsonl", "none.jsonl"),
    ("data check others.jsonl", "problem_column"),
    ("data check rows.jsonl --against gsm8q", "gsm8k"),
]
COMMANDS = [*((f"train {options}", name) for options, name in TRAIN), *OTHERS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("careless")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def check(command, name, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(shlex.split(command))
    shown = capsys.readouterr()
    said = [line for line in shown.out.splitlines() if "accelerator" not in line]  # DeepSpeed's
    assert (stop.value.code, said) == (2, [])
    (line,) = shown.err.splitlines()
    assert line.startswith("barl") and name in line


@pytest.mark.filterwarnings("ignore:step_size=128")
@pytest.mark.parametrize(("command", "name"), COMMANDS, ids=[run[:60] for run, _ in COMMANDS])
def test_a_mistake_is_said_in_one_line_before_weights_are_read(
    folder, command, name, monkeypatch, capsys
):
    def read(*_, **__):
        raise AssertionError("the weights are read")

    monkeypatch.setattr(transformers.PreTrainedModel, "_load_pretrained_model", read)
    monkeypatch.chdir(folder)
    check(command, name, capsys)


@pytest.mark.filterwarnings("ignore:step_size=128")
@pytest.mark.parametrize(("options", "name"), LATE)
def test_other_mistakes_are_said_when_the_model_is_loaded(
    folder, options, name, monkeypatch, capsys
):
    monkeypatch.chdir(folder)
    check(f"train {options}", name, capsys)


@pytest.mark.filterwarnings("ignore:step_size=128")
def test_what_a_users_function_returns_is_said_in_the_last_line(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", "--config", "good.yaml", "--reward_funcs", "mine.number"])
    said = capsys.readouterr().err
    assert stop.value.code == 2 and "Traceback" not in said
    assert "number" in said.splitlines()[-1] and "reward_funcs" in said.splitlines()[-1]


def test_a_secret_in_a_mistake_is_not_said(folder, capsys):
    with pytest.raises(SystemExit):
        cli.main(["train", "--hub_tken=hf_canary"])
    assert "canary" not in capsys.readouterr().err


def test_a_process_says_no_more_and_commands_no_terminal(folder):
    run = ["train", "--config", "good.yaml", "--dataset_name", "row\x1b[2J.jsonl"]
    command = [*PRELOADED, "barl_trl", *run]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("barl train: ") and line.isprintable()


def test_of_a_launch_the_first_process_says_it(monkeypatch, capsys):
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", "--config", "nowhere"])
    assert (stop.value.code, capsys.readouterr().err) == (2, "")


def test_the_shipped_problems_are_no_mistake(capsys):
    cli.main(["data", "check", str(ROOT / "examples" / "problems.jsonl")])
    assert "248 of 248 rows kept" in capsys.readouterr().out
