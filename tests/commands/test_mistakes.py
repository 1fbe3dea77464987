"""A careless user's mistakes: each ends with exit status 2 and one line that names it."""

import shlex
import subprocess
from pathlib import Path

import pytest
import transformers

from barl_trl.commands import cli
from barl_trl.synthetic.search import TINY_MODEL_DIR

from ..preloaded import PRELOADED

pytestmark = pytest.mark.filterwarnings("ignore:step_size=128")
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

COMMANDS = [
    line.format(LONG=LONG, MODEL=TINY_MODEL_DIR).split("\t")
    for line in Path(__file__).with_name("mistakes.tsv").read_text().splitlines()
]
"""Commands, and what the line that they end with names."""
LATE = [
    ("--config good.yaml --use_peft --lora_r 0", "`r`"),
    ("--config good.yaml --use_peft --lora_target_modules q_prj", "q_prj"),
    ("--config good.yaml --report_to wandbb", "wandbb"),
    ("--config good.yaml --report_to azure_ml", "AzureML"),
]
"""Mistakes that are said when the model is loaded, by PEFT and transformers."""


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


@pytest.mark.parametrize(("command", "name"), COMMANDS, ids=[run[:60] for run, _ in COMMANDS])
def test_a_mistake_is_said_in_one_line_before_weights_are_read(
    folder, command, name, monkeypatch, capsys
):
    def read(*_, **__):
        raise AssertionError("the weights are read")

    monkeypatch.setattr(transformers.PreTrainedModel, "_load_pretrained_model", read)
    monkeypatch.chdir(folder)
    check(command, name, capsys)


@pytest.mark.parametrize(("options", "name"), LATE)
def test_other_mistakes_are_said_when_the_model_is_loaded(
    folder, options, name, monkeypatch, capsys
):
    monkeypatch.chdir(folder)
    check(f"train {options}", name, capsys)


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
