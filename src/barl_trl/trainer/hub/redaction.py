"""Secrets stay out of what is written: tokens, keys and passwords, by the names of their fields.

[`BARLConfig`] is redacted where it is pickled, shown or tracked, and so are the settings and the
command line that `barl evaluate` records.
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
    _Arguments = object  # `barl evaluate --help` needs no torch

_SECRET = re.compile(
    r"secret|password|api_?key|^token$|(^|_)(hub|hf|auth|access)_token$", re.IGNORECASE
)


def redacted(value: Any, *, is_forgotten: bool = False) -> Any:
    """Return a value without the secrets in its dictionaries, at any depth.

    Args:
        value: A value that may be written; other containers than dictionaries, lists and tuples
            stay as they are.
        is_forgotten: Whether `None` stands in place of a secret, else its name: `<HUB_TOKEN>`.

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
    r"""Return a command line without secrets, as a shell reads it.

    Secrets are values of options with such a name, fields of JSON objects, and tokens of the Hub.

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
    """Whether a field of this name holds a secret: `token`, `hub_token`, `api_key`, `my_secret`."""
    return isinstance(name, str) and bool(_SECRET.search(name))


class RedactedArguments(_Arguments):
    """Training arguments whose secrets are used, but neither pickled nor shown.

    transformers hides fields like `hub_token` in `to_dict`, which trackers get, but not those in
    dictionaries; and it saves all of them in `training_args.bin`, which it pushes to the Hub.
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
        shown = redacted({option.name: getattr(self, option.name) for option in fields(self)})
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in shown.items())})"

    __str__ = __repr__

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, as trackers get them."""
        return redacted(super().to_dict())
