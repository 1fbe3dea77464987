"""A careless user's mistakes: each ends with exit status 2 and one line that names it."""

import shlex
import subprocess
from pathlib import Path

import pytest
import transformers
import yaml

from barl_trl.commands import cli
from barl_trl.synthetic.search import TINY_MODEL_DIR

from ..preloaded import PRELOADED

pytestmark = pytest.mark.filterwarnings("ignore:step_size=128")
HERE = Path(__file__).parent
FILES = yaml.safe_load((HERE / "careless.yaml").read_text())
FILES |= {"deep.yaml": "[" * 3_000, "bytes.yaml": "dataset_name: \x00\n"}
LONG = "x" * 300

COMMANDS = [
    line.format(LONG=LONG, MODEL=TINY_MODEL_DIR).split("\t")
    for line in (HERE / "mistakes.tsv").read_text().splitlines()
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
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("{MODEL}", str(TINY_MODEL_DIR)))
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
