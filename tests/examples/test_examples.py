"""The examples, in short."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import torch
import yaml
from nbconvert.preprocessors import ExecutePreprocessor

import barl_trl
from barl_trl.synthetic.search import observation_likelihood, problems

from ..paths import ROOT
from ..tiny import tiny_model
from ..trainer.playing import agent_tokenizer

EXAMPLES = ROOT / "examples"


def run_short(name, tmp_path, monkeypatch, **sizes):
    """Run an example with a few small steps, in a folder of its own."""

    def short(*args, config=barl_trl.BARLConfig, **kwargs):
        sizes.setdefault("per_device_train_batch_size", 16)
        return config(*args, **kwargs | {"max_steps": 2, "logging_steps": 1} | sizes)

    monkeypatch.setattr(barl_trl, "BARLConfig", short)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def first_log(name):
    path = Path("outputs", name, "checkpoint-2", "trainer_state.json")
    return json.loads(path.read_text())["log_history"][0]


@pytest.mark.parametrize("name", ["agents", "quickstart"])
def test_an_agent_trains(name, tmp_path, monkeypatch):
    run_short(f"{name}.py", tmp_path, monkeypatch)
    first = first_log(name)
    # the shipped model plays in the right form, but asks and stops at random
    assert first["barl/no_answer"] < 0.2 and 2 < first["barl/turns_per_rollout"] < 5
    assert first["barl/observation_gain"] > 0
    assert list(Path("outputs", name, "beliefs").glob("*.parquet"))


def test_the_tasks_belief_trains(tmp_path, monkeypatch, capsys):
    run_short("beliefs.py", tmp_path, monkeypatch)
    shown, first = capsys.readouterr().out, first_log("beliefs")
    assert "barl/entropy_before: 1.95 in the first step, 1.95 in the last\n" in shown  # ln 7
    # the shipped model tries some numbers and sums right
    assert 0.2 < first["barl/entropy_after"] < 1.9
    assert first["barl/truth_mass_after"] > 0.15
    assert first["barl/scoring_tokens"] == 0


def test_the_belief_reads_lines_as_the_package_does():
    observed = runpy.run_path(str(EXAMPLES / "beliefs.py"))["observed"]
    problem = next(problems(0))
    steps = [f"\n{problem.try_line(number)}" for number in problem.candidates]
    steps += ["\nI know it.", "", steps[0].replace("no", "yes")]
    hypotheses = [[str(number) for number in problem.candidates]]
    columns = {"prompts": [problem.prompt], "hypotheses": hypotheses, "steps": [steps]}
    assert observed(**columns, solution=["2"]) == observation_likelihood(**columns)


@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_demo_trains_both_arms_and_prints_what_they_reached(tmp_path, capfd, is_whole):
    out, demo = tmp_path / "out", runpy.run_path(str(EXAMPLES / "demo.py"))
    if is_whole:
        subprocess.run([sys.executable, EXAMPLES / "demo.py", out, "1"], check=True)
    else:
        demo["train"].__globals__["TEST_GAMES"] = 8
        demo["show"](out, {credit: demo["train"](out, credit, 1) for credit in demo["RATES"]})
    shown = capfd.readouterr().out
    assert re.search(r"^ +start +grpo +bayes$", shown, re.MULTILINE)
    assert re.search(r"^secrets found( +\d+%){3}$", shown, re.MULTILINE)
    curves = json.loads((out / "summary.json").read_text())["curves"]
    assert [log["step"] for log in curves["bayes"]] == [0, 1]
    # both begin with the same model on the same games
    assert curves["grpo"][0]["eval_reward"] == curves["bayes"][0]["eval_reward"]
    for name in ("training.png", "inspect/index.html", "grpo/model.safetensors"):
        assert (out / name).exists()


# Notebooks


@pytest.mark.slow
def test_the_notebook_trains_a_better_model(tmp_path):
    notebook = nbformat.read(EXAMPLES / "reasoning.ipynb", as_version=4)
    execute = ExecutePreprocessor(timeout=1200, kernel_name="python3")
    execute.preprocess(notebook, {"metadata": {"path": tmp_path}})
    assert (tmp_path / "outputs" / "notebook" / "inspect" / "index.html").exists()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", ())]
    printed = "\n".join(out.get("text", "") for out in outputs)
    found = re.findall(r"^(?:before|after) +([\d.]+) % +\[([\d.]+),", printed, re.MULTILINE)
    assert float(found[1][1]) > float(found[0][0])  # the lower end


COLAB = nbformat.read(EXAMPLES / "colab_qwen3_lora.ipynb", as_version=4)
CODE = [cell.source for cell in COLAB.cells if cell.cell_type == "code"]
SETTINGS = """
from pathlib import Path
MODEL, DATASET, CONFIG = "tiny", "problems.jsonl", None
MAX_STEPS, MAX_COMPLETION_LENGTH, OUTPUT = 2, 48, Path("outputs/colab")
"""


def test_the_colab_notebook_trains_an_adapter_and_shows_the_page(tmp_path, monkeypatch, capsys):
    """The installation is left out, and the cell of settings is another."""
    assert "**This notebook has not been run on a GPU.**" in COLAB.cells[0].source
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    tokenizer = agent_tokenizer("qwen3")
    tiny_model(tokenizer).save_pretrained("tiny")
    tokenizer.save_pretrained("tiny")
    rows = (EXAMPLES / "problems.jsonl").read_text().splitlines()
    Path("problems.jsonl").write_text("\n".join(rows[:8]))
    _, _, *cells = CODE
    names = {}
    exec(SETTINGS, names)
    before, _, shown = "\n".join(cells).rpartition("\n")
    exec(before, names)
    assert re.search(r"^ +2 +\d\.\d\d +nan$", capsys.readouterr().out, re.MULTILINE)
    assert Path("outputs/colab/adapter_model.safetensors").exists()
    assert eval(shown, names).src.startswith("data:text/html;base64,")
    args, lora = names["args"], names["lora"]
    recipe = yaml.safe_load((ROOT / "recipes" / "qwen3-0.6b-lora.yaml").read_text())
    assert (args.learning_rate, lora.r) == (recipe["learning_rate"], recipe["lora_r"])


# The real model


def test_problems_of_the_real_model_have_right_steps_and_are_each_once(tmp_path):
    options = [tmp_path, "--train", "300", "--test", "50", "--solutions", "40"]
    script = EXAMPLES / "real_model" / "problems.py"
    subprocess.run([sys.executable, script, *options], check=True)
    rows = [json.loads(line) for p in tmp_path.glob("*.jsonl") for line in p.open()]
    assert len({row["problem"] for row in rows}) == len(rows) == 390
    for row in filter(lambda row: "solution" in row, rows):
        *steps, last = row["solution"].split("\n")
        assert last == rf"The answer is \boxed{{{row['answer']}}}."
        sums = [re.search(r"([\d+*\- ]+) = (\d+)", step) for step in steps]
        assert all(eval(found[1]) == int(found[2]) for found in sums)


@pytest.mark.slow
def test_the_real_models_warm_up_training_and_evaluation(tmp_path, model_path):
    folder = EXAMPLES / "real_model"

    def run(*words):
        command = [sys.executable, *map(str, words)]
        subprocess.run(command, check=True, timeout=300, cwd=tmp_path)

    run(folder / "problems.py", "data", "--train", 300, "--test", 50, "--solutions", 40)
    run(folder / "warm_up.py", model_path, "data/solutions.jsonl", "warm", "--steps", 2)
    recipe = ["--config", folder / "recipe.yaml", "--output_dir", "out", "--max_steps", 1]
    run("-m", "barl_trl", "train", *recipe)
    test = ["--benchmarks", "test=data/test.jsonl", "--max_tokens", 8, "--limit", 4]
    run("-m", "barl_trl", "evaluate", "--model", "out", *test, "--output_dir", "responses")
    results = json.loads((tmp_path / "responses" / "results.json").read_text())
    assert results["benchmarks"]["test"]["num_problems"] == 4
