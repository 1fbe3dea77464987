"""Tokens, keys and passwords are redacted: the name of a field tells that it holds a secret.

[`BARLConfig`] is redacted where it is pickled, printed or sent to a tracker. The settings and the
command line that `barl evaluate` records are redacted, too.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ...report.json_files import parse_json

if TYPE_CHECKING:
    from transformers import TrainingArguments as _Arguments
else:
    _Arguments = object  # transformers would import torch, which `barl evaluate --help` must not

_SECRET = re.compile(
    r"secret|password|api_?key|^token$|(^|_)(hub|hf|auth|access)_token$", re.IGNORECASE
)


def redacted(value: Any, *, is_forgotten: bool = False) -> Any:
    """Return a value without the secrets in its dictionaries, at any depth.

    Args:
        value: Any value. Dictionaries, lists and tuples are searched; other containers are not.
        is_forgotten: Whether `None` replaces a secret; else its name does, as in `<HUB_TOKEN>`.

    Example:
        >>> redacted({"token": "hf_x", "vllm": {"api_key": "k", "max_tokens": 3}})
        {'token': '<TOKEN>', 'vllm': {'api_key': '<API_KEY>', 'max_tokens': 3}}
    """
    if isinstance(value, Mapping):
        return {
            name: (None if is_forgotten else f"<{name.upper()}>")
            if _is_secret(name) and item not in (None, True, False)
            else redacted(item, is_forgotten=is_forgotten)
            for name, item in value.items()
        }
    if type(value) in (list, tuple):
        return type(value)(redacted(item, is_forgotten=is_forgotten) for item in value)
    return value


def redacted_command(argv: Sequence[str]) -> str:
    r"""Return a command line without secrets, quoted for a shell.

    Secrets are the values of options and of JSON fields whose names tell it, and tokens of the Hub.

    Args:
        argv: The words of the command line.

    Example:
        >>> redacted_command(["barl", "--hub_token", "x", "--kw={\"api_key\": \"k\"}", "--n=3"])
        'barl --hub_token \'<HUB_TOKEN>\' \'--kw={"api_key": "<API_KEY>"}\' --n=3'
    """
    shown, option = [], ""
    for text in argv:
        name, equals, value = text.partition("=") if text.startswith("--") else (option, "", text)
        is_value = bool(equals) or not text.startswith("--")
        field = name.lstrip("-").replace("-", "_")
        if is_value and _is_secret(field):
            value = f"<{field.upper()}>"
        elif is_value:
            value = re.sub(r"hf_[A-Za-z0-9]{16,}", "<TOKEN>", _redacted_json(value))
        shown.append(f"{name}={value}" if equals else value if is_value else text)
        option = "" if is_value else name
    return shlex.join(shown)


def _redacted_json(text: str) -> str:
    try:
        content = parse_json(text)
    except ValueError:
        return text
    return json.dumps(redacted(content)) if isinstance(content, dict | list) else text


def _is_secret(name: Any) -> bool:
    """Whether a field of this name holds a secret, such as `hub_token`, `api_key`, `my_secret`."""
    return isinstance(name, str) and bool(_SECRET.search(name))


class RedactedArguments(_Arguments):
    """Training arguments that are pickled and printed without their secrets.

    transformers sends `to_dict` to trackers. It hides fields like `hub_token` there, but not the
    secrets inside of dictionaries. It also pickles all secrets into `training_args.bin`, which it
    pushes to the Hub.
    """

    def __getstate__(self) -> dict[str, Any]:
        return redacted(vars(self), is_forgotten=True)

    def __copy__(self):
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def __deepcopy__(self, memo):
        copied = memo[id(self)] = object.__new__(type(self))
        vars(copied).update(deepcopy(vars(self), memo))
        return copied

    def __repr__(self):
        settings = redacted({one.name: getattr(self, one.name) for one in fields(self)})
        arguments = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        return f"{type(self).__name__}({arguments})"

    __str__ = __repr__

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name without their secrets, as trackers get them."""
        return redacted(super().to_dict())
