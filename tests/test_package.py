"""What `python -m build` makes: the package's page on an index, and a wheel that needs no clone."""

import email
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt
from pyarrow import parquet

from barl_trl.synthetic.search import search_rows

from .paths import ROOT

pytestmark = pytest.mark.slow
PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
CPU_TORCH = ["--extra-index-url", "https://download.pytorch.org/whl/cpu", "--retries", "0"]


def run(*command, cwd):
    """Run a command that does not find the clone, and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel that is built from the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True)
    [path] = folder.glob("barl_trl-*.whl")
    return path


def test_it_has_every_file_of_the_package(wheel):
    package = ROOT / "src" / "barl_trl"
    files = {path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"barl_trl/{path.relative_to(package)}" for path in files} == {
        name for name in names if ".dist-info/" not in name
    }


def test_its_page_on_an_index_links_addresses_alone(wheel):
    with zipfile.ZipFile(wheel) as files:
        [name] = [name for name in files.namelist() if name.endswith("/METADATA")]
        page = email.message_from_bytes(files.read(name)).get_payload()
    tokens = MarkdownIt().enable("table").parse(page)
    inline = [token for block in tokens for token in block.children or ()]
    links = [token.attrs.get("href") or token.attrs.get("src") for token in inline if token.attrs]
    assert "https://arxiv.org/abs/2505.20561" in links
    assert [link for link in links if not link.startswith("https://")] == []
    titles = [tokens[k + 1].content for k, t in enumerate(tokens) if t.type == "heading_open"]
    assert {"barl-trl", "Install", "Train", "Citation"} < set(titles)


@pytest.fixture(scope="module")
def user(wheel, tmp_path_factory):
    """The folder of somebody who installed the wheel, and has no clone."""
    folder = tmp_path_factory.mktemp("user")
    run(sys.executable, "-m", "venv", "env", cwd=folder)
    python = str(folder / "env" / "bin" / "python")
    install = [python, *PIP, "install", "-c", ROOT / "constraints.txt"]
    run(*install, *CPU_TORCH, "torch", cwd=folder)
    run(*install, wheel, cwd=folder)
    return User(folder)


class User:
    """Runs programs of the new environment in a folder outside the clone."""

    def __init__(self, folder):
        self.folder = folder
        self.model = str(self.shipped("barl_trl.synthetic.search", "TINY_MODEL_DIR"))

    def program(self, name):
        return str(self.folder / "env" / "bin" / name)

    def __call__(self, name, *arguments):
        return run(self.program(name), *arguments, cwd=self.folder)

    def shipped(self, module, expression):
        """A path inside the installed package."""
        code = f"import {module} as module; print(module.{expression})"
        path = Path(self("python", "-c", code).strip())
        assert path.is_relative_to(self.folder)
        return path

    def copy(self, name, **changed):
        """Copy an example, with other values of some of its arguments."""
        text = (ROOT / "examples" / name).read_text()
        for argument, value in changed.items():
            text, count = re.subn(rf"\b{argument}=\d+", f"{argument}={value}", text)
            assert count == 1
        (self.folder / name).write_text(text)

    def recipe(self, name, **settings):
        """Write a recipe that trains the shipped model on problems that list their candidates."""
        rows = [
            {"problem": row["prompt"].strip(), "answer": row["solution"], **row}
            for row in search_rows(8, seed=0, with_candidates=True)
        ]
        (self.folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        values = {"model_name_or_path": self.model, "dataset_name": "rows.jsonl"}
        values |= {"prompt_template": "{problem}\n", "use_cpu": True, "bf16": False}
        values |= {"num_generations": 4, "per_device_train_batch_size": 8, "logging_steps": 1}
        values |= {"max_completion_length": 48, "step_size": 12, "report_to": "none"}
        (self.folder / name).write_text(yaml.safe_dump(values | settings))
        return ["--config", name]

    def state(self, folder):
        return json.loads((self.folder / folder / "trainer_state.json").read_text())

    def records(self, folder):
        """The rollouts of a run, as `barl inspect` reads them."""
        paths = sorted((self.folder / folder / "beliefs").glob("rollouts_*.parquet"))
        return [row for path in paths for row in parquet.read_table(path).to_pylist()]


def losses(state):
    return [log for log in state["log_history"] if "loss" in log]


def test_the_quickstart_and_its_page(user):
    user.copy("quickstart.py", max_steps=5)
    user("python", "quickstart.py")
    shown = user("barl", "inspect", "outputs/quickstart")
    assert shown.startswith("320 rollouts.")
    page = (user.folder / "outputs" / "quickstart" / "inspect" / "index.html").read_text()
    # up to 2,000 rollouts the page is one file
    [*rollouts] = user.records("outputs/quickstart")
    assert len(rollouts) == 320
    for rollout in rollouts[:: len(rollouts) // 10]:
        assert json.dumps(rollout["solution"]) in page
    assert "Which of " in page


def test_the_example_of_agents(user):
    user.copy("agents.py", max_steps=20, per_device_train_batch_size=32)
    shown = user("python", "agents.py")
    assert "barl/turns_per_rollout: " in shown
    assert user("barl", "inspect", "outputs/agents").startswith("640 rollouts.")
    assert (user.folder / "outputs" / "agents" / "inspect" / "index.html").exists()
    turns = {len(rollout["turn_ends"] or [0]) for rollout in user.records("outputs/agents")}
    assert max(turns) > 1


def test_recipes_and_help(user):
    assert "qwen2.5-math-1.5b" in user("barl", "recipes")
    recipe = user("barl", "recipes", "qwen3-0.6b-lora")
    assert recipe == (ROOT / "recipes" / "qwen3-0.6b-lora.yaml").read_text()
    assert "--consistency_beta" in user("barl", "train", "--help")


def test_a_script_on_two_processes(user):
    user.copy("train_barl.py")
    user.copy("problems.jsonl")
    (user.folder / "ddp.yaml").write_text(user("barl", "recipes", "cpu/ddp"))
    chat = user.shipped("barl_trl.synthetic.number", "NUMBER_MODEL_DIR")
    launch = ["launch", "--config_file", "ddp.yaml", "--main_process_port", "0", "train_barl.py"]
    short = ["--max_steps", "2", "--max_completion_length", "24", "--use_cpu"]
    data = ["--model", str(chat), "--data", "problems.jsonl", "--output_dir", "two"]
    user("accelerate", *launch, *data, *short)
    assert (user.folder / "two" / "checkpoint-2" / "complete.json").exists()
    completions = user.folder / "two" / "completions" / "completions_00001.parquet"
    assert parquet.read_table(completions).num_rows == 2 * 8
    assert len(losses(user.state("two/checkpoint-2"))) == 2
    assert (user.folder / "two" / "model.safetensors").exists()


def test_a_lora_run_that_is_stopped_and_resumed(user):
    lora = {"use_peft": True, "lora_r": 4, "lora_target_modules": "all-linear"}
    recipe = user.recipe("lora.yaml", output_dir="lora", max_steps=30, **lora)
    command = [user.program("barl"), "train", *recipe, "--save_on_interrupt", "true"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(command, cwd=user.folder, env=environment, **pipes) as process:
        for line in process.stdout:
            if re.match(r" *2/30 ", line):
                process.terminate()
        said = process.stderr.read()
    assert process.returncode == 130, said
    [checkpoint] = (user.folder / "lora").glob("checkpoint-*")
    assert f"--resume_from_checkpoint lora/{checkpoint.name}" in said
    done = int(checkpoint.name.removeprefix("checkpoint-"))
    assert 2 <= done < 30
    assert not (user.folder / "lora" / "adapter_model.safetensors").exists()

    most = str(done + 2)
    resume = ["--resume_from_checkpoint", f"lora/{checkpoint.name}", "--max_steps", most]
    shown = user("barl", "train", *recipe, *resume)
    assert f"{done + 1}/{most}" in shown and f" {done}/{most}" not in shown
    state = user.state("lora")
    assert state["global_step"] == done + 2
    assert [log["step"] for log in losses(state)] == [*range(1, done + 3)]
    assert (user.folder / "lora" / "adapter_model.safetensors").exists()
    assert not (user.folder / "lora" / "model.safetensors").exists()


MINE = '''"""Reward, extractor, segmenter, credit and likelihood of one user, in one file."""

import math
import re
import sys

from barl_trl.credit.registry import Credit
from barl_trl.credit.rollouts import ScoredRollouts
from barl_trl.posterior import StepValues
from barl_trl.rewards import completion_text


def answer(text):
    found = re.findall(r"boxed\\{(\\d+)\\}", text)
    return found[-1] if found else None


def right_or_half(completions, solution, **columns):
    """Half a point for any answer, and one for the right one."""
    answers = [answer(completion_text(completion)) for completion in completions]
    return [(0.5 * (a is not None)) + (0.5 * (a == s)) for a, s in zip(answers, solution)]


def fives(token_ids):
    """End a step after every fifth token."""
    return [*range(5, len(token_ids), 5), *([len(token_ids)] if len(token_ids) else [])]


def observed(prompts, hypotheses, steps, **columns):
    """Rule out what a step finds wrong."""
    return [
        [[-math.inf if f"Try {n}:" in s and "no." in s else 0.0 for n in texts] for s in of]
        for texts, of in zip(hypotheses, steps)
    ]


def outcome_at_each_step(rollouts: ScoredRollouts) -> StepValues:
    outcomes = 3 * rollouts.outcomes[:, None] * rollouts.step_mask
    return StepValues(outcomes, rollouts.outcomes)


thrice = Credit(outcome_at_each_step, credit_baseline="none", value_normalization="none")


if __name__ == "__main__":
    from datasets import Dataset

    from barl_trl import BARLConfig, BARLTrainer
    from barl_trl.synthetic.search import TINY_MODEL_DIR, search_rows

    BARLTrainer(
        model=str(TINY_MODEL_DIR),
        reward_funcs=right_or_half,
        args=BARLConfig(
            "mine-python",
            credit="mine.thrice",
            belief="task",
            hypotheses_column="candidates",
            max_steps=1,
            num_generations=4,
            per_device_train_batch_size=8,
            max_completion_length=48,
            logging_steps=1,
            use_cpu=True,
            bf16=False,
            log_beliefs=True,
        ),
        train_dataset=Dataset.from_list(search_rows(8, seed=0, with_candidates=True)),
        answer_extractor=answer,
        step_segmenter=fives,
        observation_likelihood=observed,
    ).train()
'''


def test_a_users_own_functions_from_one_file(user):
    (user.folder / "mine.py").write_text(MINE)
    recipe = user.recipe(
        "mine.yaml",
        output_dir="mine-shell",
        max_steps=1,
        reward_funcs=["mine.right_or_half"],
        credit="mine.thrice",
        belief="task",
        hypotheses_column="candidates",
        observation_likelihood="mine.observed",
        log_beliefs=True,
    )
    user("barl", "train", *recipe)
    user("python", "mine.py")
    for folder in ("mine-shell", "mine-python"):
        rollouts = user.records(folder)
        assert len(rollouts) == 8
        assert {rollout["outcome"] for rollout in rollouts} <= {0, 0.5, 1}
        assert {0.5, 1} & {rollout["outcome"] for rollout in rollouts}
        # what is ruled out has no belief left, which no model's belief does
        assert any(0 in state for rollout in rollouts for state in rollout["posterior"])
        values = {(one["outcome"], value) for one in rollouts for value in one["step_values"]}
        assert all(value == 3 * outcome for outcome, value in values)
        state = user.state("mine-shell" if folder == "mine-shell" else "mine-python/checkpoint-1")
        assert "rewards/right_or_half/mean" in losses(state)[0]
    for rollout in rollouts:  # of the segmenter, which only Python takes
        assert all(end == 5 * n for n, end in enumerate(rollout["step_ends"][:-1], 1))
