"""What is written, printed or pushed has no secrets: what tells them, and who leaves them out."""

import re
from collections.abc import Mapping
from copy import copy, deepcopy
from types import MappingProxyType
from typing import Any

_NAME = (
    r"(?:[\w-]*(?:secret|passw|credential|-signature|authorization|cookie"
    r"|(?:api|access|private|account)[_-]?key)[\w-]*+|(?:[\w-]*(?:hub|hf|auth|access|api|bearer"
    r"|session|hugging_?face|git(?:hub|lab)|wandb|trackio)[_-]?)?(?:token|pwd|sig)"
    r"|(?-i:[A-Z0-9_]+_TOKEN))"
)
_GIVEN = re.compile(  # NAME=value, "NAME": value, --NAME value
    rf"""((?:(?<![\w-]){_NAME}["']?\s*[=:]|--{_NAME}\s|[?&]key=)\s*)(?!(?:null|none|true|false)\b)"""
    r"""(?:(?:bearer|basic)\s+\S+|"[^"]*"|'[^']*'|[^\s,;&"')}\]]+)""",
    re.I,
)
_LOOK = re.compile(  # who logs in to a server first: the name may look like a secret itself
    r"""(?<=://)(?!git@)[^\s/?#"]+(?=@)"""
    r"""|(?<![\w/.%+-])(?!mailto)[\w.%+-]++:[^\s/:@"']+(?=@[\w.-])"""
    r"|\b(?:hf_|sk-|gh[opsur]_|github_pat_|glpat-|xox[a-z]-|nvapi-|AKIA|ASIA|AIza)[\w-]{8,}"
    r"|\beyJ[\w-]+\.[\w-]+\.[\w-]*|(?i:(?<=\bbearer\s))[\w.~+/=-]{8,}"
)


def redacted(value: Any, *tokens: str | None) -> Any:
    """Return a value without secrets, which a name before them tells, or their look.

    `tokens` are secrets that have neither. What is written to a file, printed or pushed, and may
    hold a user's settings or a server's words, comes through here.

    Example:
        >>> redacted({"token": "x", "vllm": {"api_key": "k", "url": "http://me:pw@host"}})
        {'token': None, 'vllm': {'api_key': None, 'url': 'http://<SECRET>@host'}}
        >>> redacted("403: hub_token=x is a bearer abcdefgh")
        '403: hub_token=<SECRET> is a bearer <SECRET>'
    """
    if isinstance(value, Mapping):
        is_secret = {n: isinstance(n, str) and re.fullmatch(_NAME, n, re.I) for n in value}
        return {n: None if is_secret[n] else redacted(value[n], *tokens) for n in value}
    if type(value) in (list, tuple, set):
        return type(value)(redacted(item, *tokens) for item in value)
    if not isinstance(value, str):
        return value
    for token in filter(None, tokens):
        value = value.replace(token, "<SECRET>")
    return _GIVEN.sub(r"\1<SECRET>", _LOOK.sub("<SECRET>", value))


class RedactedArguments:
    """Training arguments that are pickled, printed and sent to trackers without their secrets.

    There, `shown` has the user's values of what the trainer changes for a while.
    """

    shown: Any = MappingProxyType({})

    def __getstate__(self) -> dict[str, Any]:  # transformers pickles and pushes them
        return redacted(vars(self) | self.shown)

    def __copy__(self):
        copied = object.__new__(type(self))
        copied.__dict__.update(vars(self))
        return copied

    def __deepcopy__(self, memo: dict[int, Any]):
        copied = copy(self)
        copied.__dict__.update(deepcopy(vars(self), memo))
        return copied

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_dict()})"

    __str__ = __repr__

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, as trackers get them."""
        arguments: Any = super()
        return redacted(arguments.to_dict() | self.shown)
