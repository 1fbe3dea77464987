"""A Hub on this machine: what a push brings there, what the card says, what is said if the Hub
refuses it, and what `barl plan` reads.
"""

import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from barl_trl.trainer.hub.pushes import push

from ..commands.qwen import RECIPE, SHALLOW, qwen, rows
from ..distributed.launching import LAUNCH
from ..paths import ROOT
from ..preloaded import PRELOADED
from .hub import Commit

TRAIN = [*PRELOADED, "barl_trl.cli", "train", "--push_to_hub", "--hub_always_push", "--config"]
RELOAD = """
import sys, torch
from peft import AutoPeftModelForCausalLM
from transformers import AutoModelForCausalLM, AutoTokenizer

for kind, name, folder in ((AutoModelForCausalLM, *sys.argv[1:3]),
                           (AutoPeftModelForCausalLM, *sys.argv[3:])):
    pushed, saved = (kind.from_pretrained(source).state_dict() for source in (name, folder))
    assert pushed.keys() == saved.keys()
    assert all(torch.equal(pushed[key], saved[key]) for key in saved)
    AutoTokenizer.from_pretrained(name)
"""


def test_only_a_name_that_can_be_on_the_hub_stands_as_data_set_in_the_metadata(tmp_path):
    names = []
    trainer = SimpleNamespace(push_to_hub=lambda dataset_name: names.append(dataset_name))
    for name in ("openai/gsm8k", str(tmp_path), "generator", None):
        push(trainer, dataset_name=name)
    assert names == ["openai/gsm8k", None, None, None]


@pytest.mark.slow
def test_what_is_pushed_can_be_loaded_and_tells_how_it_was_made(tmp_path, recipe, hub, run):
    """A model and an adapter, pushed with each checkpoint."""
    whole, lora = str(tmp_path / "whole"), str(tmp_path / "lora")
    evaluation = ["--eval_strategy", "steps", "--eval_steps", "1", "--step_size", "6"]
    evaluation += ["--dataset_test_split", "train[:2]", "--per_device_eval_batch_size", "4"]
    names = ["--hub_model_id", "me/whole", "--output_dir", whole]
    done = run(*TRAIN, recipe(), *names, *evaluation)
    assert done.returncode == 0, done.stderr
    names = ["--hub_model_id", "me/lora", "--output_dir", lora, "--hub_strategy", "checkpoint"]
    settings = recipe(use_peft=True, lora_target_modules="all-linear", lora_r=4)
    done = run(*TRAIN, settings, *names)
    assert done.returncode == 0, done.stderr
    assert "Model pushed to the Hub as me/lora." in done.stdout
    (tmp_path / "reload.py").write_text(RELOAD)
    done = run(*PRELOADED, f"{tmp_path}/reload.py", "me/whole", whole, "me/lora", lora)
    assert done.returncode == 0, done.stderr

    progress = [f"Training in progress, step {step}" for step in (1, 2)]
    assert hub.titles("me/whole") == [*progress, "End of training"]
    both = [title + end for title in progress for end in ("", ", checkpoint")]
    assert hub.titles("me/lora") == [*both, "End of training"]
    adapter = hub.files("me/lora")
    assert {"last-checkpoint/trainer_state.json", "adapter_model.safetensors"} <= adapter.keys()
    assert "BARL" in adapter["last-checkpoint/README.md"].decode()
    check_card(hub.files("me/whole")["README.md"].decode())
    first = hub.repositories["me/whole"][0].files["README.md"].decode()
    assert "Results, as last logged in 1 steps" in first


def check_card(card):
    metadata = yaml.safe_load(card.split("---")[1])
    assert {"trl", "barl"} <= set(metadata["tags"])
    assert "datasets" not in metadata, "the Hub refuses a card with a file's name there"
    for text in (
        "trained with BARL, a method introduced in [Beyond Markovian",
        "https://huggingface.co/papers/2505.20561",
        "@inproceedings{zhang2026beyond,",
        "| step_size | `6` |",
        "| consistency_beta | `1.0` |",
        "| learning_rate | `0.001` |",
        "| max_completion_length | `16` |",
        "| eos_token_id | `[",
        "| data set | `problems.jsonl` |",
        "| rows | `248` |",
        "| reward | `1 accuracy_reward` |",
        "Results, as last logged in 2 steps",
    ):
        assert text in card, text
    for metric in ("reward", "barl/value", "barl/posterior_entropy", "eval_reward"):
        assert re.search(rf"^\| {metric} \| `-?[\d.e-]+` \|$", card, re.MULTILINE), metric
    assert "None" not in card


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "token", "reason"),
    [
        ("me/tiny", "hf_of_nobody", "401 (Invalid username or password.)"),
        ("others/new", "hf_of_me", "403 (You don't have the rights to write to others/new)"),
        ("others/tiny", "hf_of_me", "403 (You don't have the rights to write to others/tiny)"),
    ],
)
def test_without_rights_nothing_is_loaded(tmp_path, recipe, hub, run, name, token, reason):
    """Neither with a wrong token nor for a repository of others, be it there or not."""
    hub.repositories["others/tiny"] = []
    settings = recipe(model_name_or_path="no-such/model")
    done = run(*TRAIN, settings, "--hub_model_id", name, HF_TOKEN=token)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"barl train: error: hub_model_id must be a repository that can be pushed to, got "
        f"{name!r}: the Hub says {reason}. Log in with `hf auth login` or set HF_TOKEN, with a "
        "token that may write to it."
    )
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_token_that_is_revoked_during_training(tmp_path, recipe, hub, run):
    """Two processes: training goes on, the model is saved, and the command says how to push it."""
    hub.revoke_after = 1
    config = ["--config_file", str(ROOT / "accelerate_configs" / "cpu" / "ddp.yaml")]
    done = run(
        *PRELOADED, *LAUNCH, *config, "--no_python", *TRAIN, recipe(), "--hub_model_id", "tiny"
    )
    out = tmp_path / "out"
    assert done.returncode == 1
    assert hub.titles("me/tiny") == ["Training in progress, step 1"]
    assert f"{out}/checkpoint-2 was not pushed to me/tiny, training goes on: " in done.stderr
    assert f"the model is saved in {out}, but was not pushed to me/tiny: " in done.stderr
    assert (out / "model.safetensors").read_bytes() != hub.files("me/tiny")["model.safetensors"]

    hub.revoke_after = None
    (later,) = re.findall("To push it later: hf (.*)", done.stderr)
    done = run(*PRELOADED, "huggingface_hub.cli.hf", *shlex.split(later))
    assert done.returncode == 0, done.stderr
    pushed = hub.files("me/tiny")
    assert pushed["model.safetensors"] == (out / "model.safetensors").read_bytes()
    assert "README.md" in pushed
    assert not [path for path in pushed if Path(path).parts[0].startswith("checkpoint")]


@pytest.mark.slow
def test_of_a_model_that_is_planned_only_the_configuration_is_read(hub, run):
    files = {"config.json": json.dumps(qwen(2).to_dict()).encode(), "model.safetensors": b""}
    hub.repositories["Qwen/Qwen2.5-Math-1.5B"] = [Commit("first", files)]
    done = run(*PRELOADED, "barl_trl.cli", "plan", "--config", RECIPE)
    assert done.returncode == 0, done.stderr
    assert rows(done.stdout)["parameters"] == f"{2 * SHALLOW / 2**30:.1f} GiB"
    read = [path for path in hub.asked if "/resolve/" in path]
    assert {path.rsplit("/", 1)[1] for path in read} == {"config.json"}
