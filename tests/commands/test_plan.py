"""`barl plan`: its figures by hand, and beside what a run does."""

import json
import math
import os
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from transformers import Qwen2Config

from barl_trl import cli
from barl_trl.commands.plan_config import PlanConfig
from barl_trl.commands.plan_tokens import Shape, scored_tokens, total_steps
from barl_trl.trainer.memory import optimizer_bytes, training_bytes

from ..paths import ROOT
from ..trainer.rollouts import config, trainer

QWEN = Qwen2Config(  # Qwen2.5-Math-1.5B's
    hidden_size=1536,
    intermediate_size=8960,
    num_hidden_layers=28,
    num_attention_heads=12,
    num_key_value_heads=2,
    vocab_size=151936,
    tie_word_embeddings=True,
)
ATTENTION = 2 * (1536 * 1536 + 1536 * 256) + 1536 + 2 * 256  # q, o; k, v of two heads; biases
LAYER = ATTENTION + 3 * 1536 * 8960 + 2 * 1536
PARAMETERS = 151936 * 1536 + 28 * LAYER + 1536
RECIPE = str(ROOT / "recipes" / "qwen2.5-math-1.5b.yaml")
ZERO2 = str(ROOT / "accelerate_configs" / "zero2.yaml")
GROUP = 5 * (1536 + 8 * 49) + 49
"""Tokens of a group at the paper's shape: 5 trunks with a branch behind each of 8 steps, and one
behind the prompt; a branch has 12 tokens of elicitation, a brace, and 6 of each of 6 answers.
"""


@pytest.fixture
def plan(tmp_path, monkeypatch, capsys):
    """Runs `barl plan` where the recipe's model is a local folder with a `config.json` alone."""
    QWEN.save_pretrained(tmp_path / "Qwen" / "Qwen2.5-Math-1.5B")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*options, recipe=RECIPE):
        cli.main(["plan", "--config", recipe, *options])
        return capsys.readouterr().out

    return run


def rows(output):
    """The table's cells by their names."""
    return {
        name.strip(): text.strip()
        for name, text in re.findall(r"^│ (.*?) +│ (.*?) +│$", output, re.MULTILINE)
    }


def test_readme_shows_the_plan_of_a_recipe_and_a_refusal(plan):
    readme = (ROOT / "README.md").read_text()
    output = plan("--accelerate_config", ZERO2)
    assert "\n".join(line.rstrip() for line in output.splitlines()) in readme
    with pytest.raises(SystemExit) as refusal:
        plan("--num_processes", "7")
    assert str(refusal.value) in " ".join(readme.split())


def test_the_papers_shape_on_eight_gpus(plan):
    shown = rows(plan("--accelerate_config", ZERO2))
    assert shown["rollout batch"] == "1,024 prompts x 5 rollouts = 5,120"
    assert shown["on each process"] == "640 rollouts = 80 micro-batches of 8"
    assert shown["groups"] == "on one process each"
    assert shown["optimizer steps on it"] == "40"
    assert shown["rollouts of each step"] == "8 processes x 2 micro-batches x 8 = 128"
    assert shown["tokens generated, at most"] == f"{5120 * 1024:,}"
    assert shown["tokens scored, at most"] == f"{1024 * GROUP:,} = 1,938 per rollout"
    assert shown["the run"] == "4,400 optimizer steps on 110 rollout batches"


def test_memory_by_hand(plan):
    shown = rows(plan("--accelerate_config", ZERO2))
    assert shown["trained"] == "1,544 of 1,544 million parameters"
    # bfloat16; gradients, and in 32 bits a copy and Adam's two moments, on 8 devices
    parts = [2 * PARAMETERS, 2 * PARAMETERS / 8, 12 * PARAMETERS / 8]
    # 65536 tokens in an MLP, in bfloat16: four of the model's width, three of the MLP's
    parts.append(65536 * 2 * (4 * 1536 + 3 * 8960))
    names = ["parameters", "gradients", "optimizer states", "scoring 65,536 tokens"]
    assert [shown[name] for name in names] == [f"{part / 2**30:.1f} GiB" for part in parts]
    assert shown["together"] == f"{sum(parts) / 2**30:.1f} GiB"
    assert shown["vLLM"] == "30% of the device"


def test_other_ways_to_train(plan, tmp_path):
    fsdp = tmp_path / "fsdp.yaml"
    text = (ROOT / "accelerate_configs" / "ddp.yaml").read_text()
    fsdp.write_text(
        text.replace("MULTI_GPU", "FSDP") + "fsdp_config: {fsdp_version: 2}\n", encoding="utf-8"
    )
    shown = rows(plan("--accelerate_config", str(fsdp)))
    assert shown["memory of a device"] == "estimates, FSDP"
    assert shown["optimizer states"] == f"{8 * PARAMETERS / 8 / 2**30:.1f} GiB"  # in 32 bits

    shown = rows(plan("--num_processes", "8", "--use_peft", "--beta", "0.1"))
    adapters = 28 * 16 * (2 * 1536 + 1536 + 256)  # rank 16, of q and v
    assert shown["trained"] == f"{adapters / 1e6:,.0f} of 1,546 million parameters"
    assert "reference model" not in shown  # the adapter is switched off

    shown = rows(plan("--beta", "0.1", "--optim", "sgd", "--method", "grpo", "--dtype", "float32"))
    assert shown["reference model"] == shown["parameters"] == f"{4 * PARAMETERS / 2**30:.1f} GiB"
    assert shown["optimizer states"] == "0.0 GiB"
    assert "tokens scored, at most" not in shown
    shown = rows(plan("--dtype", "auto"))  # this config.json says nothing of it
    assert shown["parameters"] == f"{4 * PARAMETERS / 2**30:.1f} GiB"


def test_what_is_not_estimated_is_said(plan, tmp_path):
    moved = tmp_path / "moved.yaml"
    text = (ROOT / "accelerate_configs" / "zero2.yaml").read_text()
    moved.write_text(
        text.replace("offload_optimizer_device: none", "offload_optimizer_device: cpu")
    )
    shown = rows(plan("--accelerate_config", str(moved)))
    assert shown["unknown"] == "what offload_optimizer_device moves away"
    shown = rows(plan("--model_name_or_path", "nobody/nothing"))
    assert shown["memory"].startswith("unknown: config.json")
    assert shown["optimizer steps on it"] == "40"


def test_settings_of_trl(plan, tmp_path):
    """Groups straddle two processes, and optimizer steps two rollout batches."""
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"model_name_or_path: x\ndataset_name: y\noutput_dir: {tmp_path}\n")
    settings = {"num_generations": 4, "per_device_train_batch_size": 6, "steps_per_generation": 3}
    settings |= {"gradient_accumulation_steps": 2, "num_processes": 2, "max_steps": 30}
    options = [word for n, value in settings.items() for word in (f"--{n}", str(value))]
    shown = rows(plan(*options, recipe=str(recipe)))
    # 18 rows on each process: the fifth group of 4 is halved
    assert shown["rollout batch"] == "9 prompts x 4 rollouts = 36"
    assert shown["groups"] == "1 of 9 straddle processes"
    assert shown["optimizer steps on it"] == "1.5"
    assert shown["for whole steps"] == "gradient_accumulation_steps = 1 or 3"
    assert shown["the run"] == "30 optimizer steps on 20 rollout batches"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--num_processes", "7"],
            "= 56, got 128: .* rollouts_per_optimizer_step = 112 or 168",
        ),
        (["--rollouts_per_optimizer_step", "100"], "rollouts_per_optimizer_step = 96 or 104"),
        (["--num_processes", "0"], "num_processes must be at least 1, got 0"),
        (["--step_size", "0"], "step_size must be at least 1"),
        (["--prompt_template", "Solve:"], "prompt_template must contain {problem}"),
        (
            ["--max_steps", "-1", "--num_train_rows", "1000"],
            "num_train_rows must be at least 1024, .* got 1000",
        ),
    ],
)
def test_what_does_not_divide_ends_with_an_error(plan, options, message):
    with pytest.raises(SystemExit, match=f"barl plan: .*{message}") as error:
        plan(*options)
    assert isinstance(error.value.code, str)  # printed to stderr; the exit status is 1


@pytest.mark.parametrize("max_hypotheses", [None, 3])
def test_tokens_of_a_group(max_hypotheses):
    num = max_hypotheses or 6
    shape = Shape(prompt=512, completion=1024, step=128, hypotheses=num)
    branch = 12 + 1 + 6 * num
    assert scored_tokens(5, shape) == 5 * (1536 + 8 * branch) + branch
    assert scored_tokens(2, shape) == 2 * (1536 + 8 * branch) + branch
    # a sequence for each state and answer: the state, the elicitation, all but the answer's last
    states = sum(range(512, 1536 + 1, 128))
    assert scored_tokens(1, shape, "reencode") == num * (states + 9 * (12 + 7))


@pytest.mark.parametrize(
    ("optim", "expected"),
    [("adamw_torch_fused", 8), ("adamw_bnb_8bit", 2), ("lion_32bit", 4), ("adafactor", 0)],
)
def test_bytes_of_optimizers(optim, expected):
    assert optimizer_bytes(optim, 4) == expected


@pytest.mark.parametrize(("stage", "spread"), [(0, 0), (1, 1), (2, 2), (3, 3)])
def test_stages_spread_more_and_more(stage, spread):
    settings = {"itemsize": 2, "trained_itemsize": 2, "state_bytes": 12}
    sizes = training_bytes(100, 60, stage=stage, num_processes=4, **settings)
    whole = {"parameters": 200, "gradients": 120, "optimizer states": 720}
    order = ["optimizer states", "gradients", "parameters"]
    assert sizes == {n: size / (4 if n in order[:spread] else 1) for n, size in whole.items()}


@pytest.mark.parametrize("num_iterations", [1, 2])
@pytest.mark.parametrize("epochs", [1, 1.5])
def test_a_run_takes_the_steps_of_its_plan(model, tokenizer, tmp_path, num_iterations, epochs):
    """Five rows are two rollout batches of two prompts; the fifth is left out."""
    settings = {
        "prompts_per_rollout_batch": 2,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2 if num_iterations == 1 else 3,
        "num_train_epochs": epochs,
        "num_iterations": num_iterations,
        "max_steps": -1,
        "max_completion_length": 4,
    }
    args = config(tmp_path, **settings)
    run = trainer(model, tokenizer, args, rows=[("1+1?", "2")] * 5)
    run.train()
    planned = PlanConfig(
        "out", num_generations=4, num_train_rows=5, num_processes=1, bf16=False, **settings
    )
    steps, batches = total_steps(planned, planned.batch_settings())
    assert run.state.global_step == steps
    assert batches == math.ceil(
        steps * settings["gradient_accumulation_steps"] / 2 / num_iterations
    )


class _ConfigOnly(BaseHTTPRequestHandler):
    """A Hub that has a `config.json` and notes what it is asked for."""

    def do_GET(self):
        self.server.asked.append(self.path)
        found = self.path.endswith("/config.json")
        content = json.dumps(QWEN.to_dict()).encode() if found else b""
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", '"1"')
        self.send_header("X-Repo-Commit", "0" * 40)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, format, *args):
        pass


def test_of_the_hub_only_the_configuration_is_read(tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), _ConfigOnly)
    server.asked = []
    Thread(target=server.serve_forever, daemon=True).start()
    here = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HUB_OFFLINE": "0"}
    here |= {"HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, "-m", "barl_trl.cli", "plan", "--config", RECIPE]
    run = subprocess.run(
        command, env=os.environ | here, check=True, capture_output=True, text=True, timeout=120
    )
    server.shutdown()
    server.server_close()
    assert rows(run.stdout)["parameters"] == f"{2 * PARAMETERS / 2**30:.1f} GiB"
    files = [path for path in server.asked if "/resolve/" in path]
    assert {path.rsplit("/", 1)[1] for path in files} == {"config.json"}
