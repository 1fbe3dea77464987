"""What a push brings to a Hub on this machine; the model card; and no secrets anywhere."""

import base64
import copy
import io
import json
import os
import pickle
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import torch
import yaml
from datasets import Dataset
from peft import LoraConfig

from barl_trl import BARLConfig
from barl_trl.trainer.redaction import redacted
from barl_trl.trainer.resume import last_checkpoint

from ..paths import ROOT
from ..tiny import CHAT_TEMPLATE

CANARY = "hf_canary_of_nobody"


class Hub(BaseHTTPRequestHandler):
    """As much of the Hub's protocol as pushing needs. Repository -> (title, files) by commit."""

    repositories: dict
    answers = None

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self.answers and "create" not in self.path:
            return self.answers(self)
        assert self.headers["Authorization"] in ("Bearer hf_of_me", None)
        if self.path == "/api/validate-yaml":  # as on the Hub, what stands for data must be a name
            metadata = yaml.safe_load(json.loads(body)["content"].split("---")[1])
            assert not metadata.get("datasets") and not metadata.get("base_model")
            self.answer({"errors": [], "warnings": []})
        elif self.path == "/api/repos/create":
            name = f"me/{json.loads(body)['name']}"
            self.repositories.setdefault(name, [])
            self.answer({"url": f"http://{self.headers['Host']}/{name}"})
        elif self.path.endswith("/preupload/main"):
            kind = {"uploadMode": "regular", "shouldIgnore": False}
            self.answer({"files": [file | kind for file in json.loads(body)["files"]]})
        else:
            name = re.match(r"/api/models/(.+/.+)/commit/main", self.path)[1]
            header, *entries = map(json.loads, body.splitlines())
            files = {e["value"]["path"]: base64.b64decode(e["value"]["content"]) for e in entries}
            self.repositories[name].append((header["value"]["summary"], files))
            url = f"http://{self.headers['Host']}/{name}/commit/{'0' * 40}"
            self.answer({"commitUrl": url, "commitOid": "0" * 40, "success": True})

    def do_GET(self):
        self.answer({"id": "me/x", "sha": "0" * 40, "siblings": [], "tags": []})

    def refuse(self):
        self.answer({"error": f"no {self.headers['Authorization']}"}, status=403)

    def be_silent(self):
        time.sleep(30)

    def answer(self, value, status=200):
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format, *args):
        pass


@contextmanager
def serving(handler, folder):
    """The environment of a process whose Hub answers so."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        environment = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_TOKEN": ""}
        environment |= {"HF_HOME": str(folder / "home"), "HF_HUB_OFFLINE": "0"}
        environment |= {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"}
        yield os.environ | environment | {"HF_HUB_DOWNLOAD_TIMEOUT": "1"}
        server.shutdown()


@pytest.fixture
def push(tmp_path):
    """Trains and pushes in a process of its own; returns the titles and files of the commits."""
    handler = type("Handler", (Hub,), {"repositories": {}})
    with serving(handler, tmp_path) as environment:

        def push(name, *, answers=None, **settings):
            handler.answers = answers
            settings |= {"folder": str(tmp_path / name), "push_to_hub": True, "max_steps": 8}
            settings |= {"hub_always_push": True, "hub_token": "hf_of_me"}
            command = [sys.executable, "-m", "tests.trainer.resume_worker", json.dumps(settings)]
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True
            )
            if answers:
                return done.stderr
            assert done.returncode == 0, done.stderr
            return handler.repositories[f"me/{name}"]

        yield push


@pytest.mark.slow
@pytest.mark.parametrize("is_lora", [False, True])
def test_each_checkpoint_and_the_end_are_pushed_without_secrets(tmp_path, push, is_lora):
    kwargs = {"model_init_kwargs": {"token": CANARY}, "model_path": None}
    kwargs |= {"log_beliefs": True, "push_beliefs": is_lora, "step_size": 8}
    commits = push("mine", is_lora=is_lora, hub_strategy="checkpoint", **kwargs)
    titles = [title for title, _ in commits if "checkpoint" not in title]
    assert titles == [*(f"Training in progress, step {n}" for n in (4, 8)), "End of training"]
    files = {name: content for _, files in commits for name, content in files.items()}
    weights = "adapter_model.safetensors" if is_lora else "model.safetensors"
    assert files[weights] == (tmp_path / "mine" / weights).read_bytes()
    assert {f"last-checkpoint/{name}" for name in ("trainer_state.json", weights)} <= files.keys()
    assert "training_args.bin" in files
    for content in files.values():
        assert b"hf_of_me" not in content and CANARY.encode() not in content
    card = files["README.md"].decode()
    assert "trained with BARL, a method introduced in [Beyond Markovian" in card
    assert "| learning_rate | `0.01` |" in card and "Results after 8 steps" in card
    assert {"trl", "barl"} <= {*yaml.safe_load(card.split("---")[1])["tags"]}
    assert list((tmp_path / "mine" / "beliefs").iterdir())
    assert any(name.startswith("beliefs/") for name in files) == is_lora


@pytest.mark.slow
@pytest.mark.parametrize("answers", [Hub.refuse, Hub.be_silent])
def test_a_push_that_fails_is_told_and_training_goes_on(tmp_path, push, answers):
    told = push("mine", answers=answers, hub_token="a-token-without-looks")
    assert "a checkpoint was not pushed" in told.split("Traceback")[0]
    assert "a-token" not in told.split("Traceback")[0]
    assert last_checkpoint(tmp_path / "mine")[0] == str(tmp_path / "mine" / "checkpoint-8")


LOADING = """
from transformers import AutoModelForCausalLM, AutoTokenizer
from barl_trl import BARLConfig
BARLConfig("out", use_cpu=True)
for loader in (AutoTokenizer, AutoModelForCausalLM):
    try:
        loader.from_pretrained("org/model")
    except OSError as error:
        print(loader.__name__, "connect" in str(error))
"""


@pytest.mark.slow
def test_a_silent_hub_is_asked_once(tmp_path):
    asked = []
    answer = {f"do_{name}": lambda self: (asked.append(self.path), time.sleep(30))
              for name in ("HEAD", "GET")}  # fmt: skip
    with serving(type("Handler", (Hub,), answer), tmp_path) as environment:
        options = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
        run = subprocess.run([sys.executable, "-c", LOADING], **options)
    assert run.stdout == "AutoTokenizer True\nAutoModelForCausalLM True\n", run.stderr
    assert len(asked) == 1


def test_a_card_names_settings_data_and_results(make, tmp_path):
    made = make(elicitation="a|`b`\nhttp://me:pw@host")
    made.train()
    made.create_model_card("mine", dataset_name=None)
    card = (tmp_path / "README.md").read_text()
    assert "| step_size | `8` |" in card and "| rows | `2` |" in card
    assert r"| elicitation | `a\|'b' http://<SECRET>@host` |" in card
    for metric in ("reward", "rewards/accuracy_reward/mean", "barl/value"):
        assert re.search(rf"^\| {metric} \| `-?[\d.e-]+` \|$", card, re.MULTILINE), metric


def run_example(card, folder, monkeypatch):
    """Runs the code in a card as it stands there; returns what it prints."""
    monkeypatch.chdir(folder)
    (code,) = re.findall(r"^```python\n(.*?)^```$", card, re.MULTILINE | re.DOTALL)
    exec(compile(code, "card", "exec"), {"print": (printed := []).append})
    return printed


@pytest.mark.parametrize("is_chat", [True, False])
def test_the_cards_example_reads_a_prompt(make, tmp_path, tokenizer, is_chat, monkeypatch):
    prompt = [{"role": "user", "content": "1+1?"}] if is_chat else "1+1?"
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.chat_template = CHAT_TEMPLATE if is_chat else None
    monkeypatch.chdir(tmp_path)
    given = {"train_dataset": Dataset.from_list([{"prompt": prompt, "solution": "2"}] * 2)}
    given |= {"processing_class": tokenizer, "credit": "rloo", "max_completion_length": 4}
    given |= {"save_strategy": "steps", "save_steps": 1}
    made = make("out", rollout_func=None, **given)
    (made.save_model if is_chat else made.train)()  # which leaves a checkpoint alone
    if is_chat:
        made.create_model_card()
    card = (tmp_path / "out" / "README.md").read_text()
    assert "credit `rloo`" in card and repr(prompt) in card
    assert len(run_example(card, tmp_path, monkeypatch)) == 1


def test_a_lora_that_is_saved_has_our_card_which_loads_it(make, model_path, tmp_path, monkeypatch):
    given = {"peft_config": LoraConfig(r=2, target_modules=["q_proj"]), "max_completion_length": 4}
    made = make(tmp_path / "out", model_path, **given)
    for folder in (tmp_path / "elsewhere", tmp_path / "out"):
        made.save_model(str(folder))
        card = (folder / "README.md").read_text()
        assert "AutoPeftModelForCausalLM" in card and "[More Information Needed]" not in card
        assert len(run_example(card, tmp_path, monkeypatch)) == 1


SECRETS, LEAKS, KEPT = yaml.safe_load(Path(__file__).with_name("secrets.yaml").read_text()).values()


def test_secrets_are_known_by_their_names_or_looks():
    for name in SECRETS:
        given = {"a": [{name: "x", "n": 3}], "b": ({name: "x"},)}
        assert redacted(given) == {"a": [{name: None, "n": 3}], "b": ({name: None},)}
    for text in LEAKS:
        shown = redacted(text.replace("%", "CANARY0123456789"))
        assert "CANARY" not in shown and "<SECRET>" in shown and redacted(shown) == shown, shown
    assert redacted(KEPT) == KEPT
    kept = {"max_tokens": 3, "pad_token": "<pad>", "eos_token": "</s>", 1: "task-sk-x", "hf_": None}
    assert redacted(kept) == kept
    assert redacted("who is plain?", "plain", None) == "who is <SECRET>?"


def test_arguments_are_used_but_neither_shown_nor_saved(tmp_path):
    kwargs = {"token": CANARY, "dtype": "float32"}
    settings = {"hub_token": CANARY, "model_init_kwargs": kwargs, "use_cpu": True, "bf16": False}
    args = BARLConfig(str(tmp_path), **settings)
    assert args.hub_token == args.model_init_kwargs["token"] == CANARY
    file = io.BytesIO()
    torch.save(args, file)
    assert CANARY.encode() not in file.getvalue()
    written = [repr(args), str(args), json.dumps(args.to_dict()), args.to_json_string()]
    assert not any(CANARY in text for text in [*written, str(args.to_sanitized_dict())])
    again = pickle.loads(pickle.dumps(args))
    assert (again.hub_token, again.model_init_kwargs) == (None, {"token": None, "dtype": "float32"})
    assert again.step_size == args.step_size
    for duplicate in (copy.copy, copy.deepcopy):
        copied = duplicate(args)
        assert copied.hub_token == copied.model_init_kwargs["token"] == CANARY
