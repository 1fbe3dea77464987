"""Secrets are in no file and in no text."""

import copy
import io
import json
import pickle
from dataclasses import fields

import pytest
import torch

from barl_trl.trainer import BARLConfig
from barl_trl.trainer.hub.redaction import _is_secret, redacted, redacted_command

CANARY = "hf_canary"
SECRETS = ["token", "hub_token", "hf_token", "api_key", "my_secret", "client_secret", "password"]


@pytest.mark.parametrize("name", [*SECRETS, "OPENAI_API_KEY", "aws_secret_access_key"])
def test_secrets_are_known_by_their_names(name):
    given = {"a": [{name: CANARY, "n": 3}], "b": ({name: CANARY},)}
    hidden = f"<{name.upper()}>"
    assert redacted(given) == {"a": [{name: hidden, "n": 3}], "b": ({name: hidden},)}
    assert redacted(given, is_forgotten=True)["a"] == [{name: None, "n": 3}]


def test_other_names_are_not():
    kept = {"max_tokens": 3, "pad_token": "<pad>", "eos_token": "</s>", "token": True}
    assert redacted(kept) == kept
    assert [f.name for f in fields(BARLConfig) if _is_secret(f.name)] == ["hub_token"]


@pytest.fixture
def args(tmp_path):
    kwargs = {"token": CANARY, "dtype": "float32"}
    return BARLConfig(
        str(tmp_path), hub_token=CANARY, model_init_kwargs=kwargs, use_cpu=True, bf16=False
    )


def test_arguments_are_used_but_neither_shown_nor_saved(args):
    assert args.hub_token == args.model_init_kwargs["token"] == CANARY
    file = io.BytesIO()
    torch.save(args, file)
    assert CANARY.encode() not in file.getvalue()
    written = [repr(args), str(args), json.dumps(args.to_dict()), args.to_json_string()]
    assert not any(CANARY in text for text in [*written, str(args.to_sanitized_dict())])
    again = pickle.loads(pickle.dumps(args))
    assert (again.hub_token, again.model_init_kwargs) == (None, {"token": None, "dtype": "float32"})
    assert again.step_size == args.step_size


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_copies_keep_them(args, duplicate):
    copied = duplicate(args)
    assert copied.hub_token == copied.model_init_kwargs["token"] == CANARY
    assert (copied.model_init_kwargs is args.model_init_kwargs) == (duplicate is copy.copy)


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["--hub_token", "x y"], "--hub_token '<HUB_TOKEN>'"),
        (["--api-key=x"], "'--api-key=<API_KEY>'"),
        (["--kwargs", '{"a": [{"token": "x"}]}'], """--kwargs '{"a": [{"token": "<TOKEN>"}]}'"""),
        (["--model", "me/hf_abcdefghijklmnopqrst"], "--model 'me/<TOKEN>'"),
        (["--push", "--seed", "1", "--max_tokens", "5"], "--push --seed 1 --max_tokens 5"),
        (["--kwargs", "{broken", "--limit=[1]"], "--kwargs '{broken' '--limit=[1]'"),
    ],
)
def test_a_command_line_has_none(argv, shown):
    assert redacted_command(["barl", *argv]) == f"barl {shown}"
