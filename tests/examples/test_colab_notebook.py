"""`examples/colab_qwen3_lora.ipynb`: its cells run on a CPU, with a tiny model and few problems."""

import re
from pathlib import Path

import nbformat
import pytest
import torch
import yaml

from ..paths import ROOT
from ..tiny import tiny_model
from ..trainer.playing import agent_tokenizer

NOTEBOOK = nbformat.read(ROOT / "examples" / "colab_qwen3_lora.ipynb", as_version=4)
CODE = [cell.source for cell in NOTEBOOK.cells if cell.cell_type == "code"]
[PRECISION] = [source for source in CODE if "has_gpu =" in source]
SETTINGS = """
from pathlib import Path
MODEL, DATASET, CONFIG = "tiny", "problems.jsonl", None
MAX_STEPS, MAX_COMPLETION_LENGTH, OUTPUT = 2, 48, Path("outputs/colab")
"""


def test_it_begins_with_what_was_not_run_and_is_short():
    assert "**This notebook has not been run on a GPU.**" in NOTEBOOK.cells[0].source
    assert 8 <= len(NOTEBOOK.cells) <= 12
    assert all(not cell.get("outputs") for cell in NOTEBOOK.cells)


@pytest.mark.parametrize(
    ("capability", "dtype"), [((7, 5), "float16"), ((8, 9), "bfloat16"), (None, "float32")]
)
def test_precision_is_what_the_gpu_computes_in(monkeypatch, capability, dtype):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: capability is not None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    names = {}
    exec(PRECISION, names)
    assert names["dtype"] == dtype
    assert (names["fp16"], names["bf16"]) == (dtype == "float16", dtype == "bfloat16")


@pytest.fixture
def ran(tmp_path, monkeypatch, capsys):
    """The names behind the last cell, what the cells print, and what the last one shows.

    The installation is left out, and the cell of settings is another.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    tokenizer = agent_tokenizer("qwen3")
    tiny_model(tokenizer).save_pretrained("tiny")
    tokenizer.save_pretrained("tiny")
    rows = (ROOT / "examples" / "problems.jsonl").read_text().splitlines()
    Path("problems.jsonl").write_text("\n".join(rows[:8]))
    install, settings, *cells = CODE
    assert "%pip install" in install
    names = {}
    exec(settings, names)
    assert (names["MODEL"], names["DATASET"]) == ("Qwen/Qwen3-0.6B", "openai/gsm8k")
    given = {*names}
    exec(SETTINGS, names)
    assert {*names} == given  # the cell has no other settings
    before, _, shown = "\n".join(cells).rpartition("\n")
    exec(before, names)
    return names, capsys.readouterr().out, eval(shown, names)


def test_it_trains_an_adapter_and_shows_the_page(ran):
    names, printed, frame = ran
    assert "8 of 8 rows kept" in printed and "no GPU" in printed
    assert re.findall(r"^ +([12]) +\d\.\d\d +\d\.\d\d$", printed, re.MULTILINE) == ["1", "2"]
    assert "64 rollouts. Open" in printed
    assert Path("outputs/colab/adapter_model.safetensors").exists()
    assert frame.src.startswith("data:text/html;base64,")
    assert "width" in frame._repr_html_()

    args, lora = names["args"], names["lora"]
    recipe = yaml.safe_load((ROOT / "recipes" / "qwen3-0.6b-lora.yaml").read_text())
    assert args.learning_rate == recipe["learning_rate"]
    assert (lora.r, lora.lora_alpha) == (recipe["lora_r"], recipe["lora_alpha"])
    assert lora.lora_dropout == recipe["lora_dropout"]
    assert args.chat_template_kwargs == recipe["chat_template_kwargs"]
