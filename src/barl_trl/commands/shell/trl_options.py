"""The options of TRL and transformers by name and type, read from their files.

Importing TRL takes six seconds of CPU, too long to wait for a word about a mistake.
"""

import ast
from collections.abc import Collection
from dataclasses import field, make_dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple, Optional

from ...report.json_files import parse_json

_FILES = {
    "GRPOConfig": "trl/trainer/grpo_config.py",
    "_BaseConfig": "trl/trainer/base_config.py",
    "ModelConfig": "trl/trainer/model_config.py",
    **dict.fromkeys(("TrainingArguments", "OptimizerNames"), "transformers/training_args.py"),
    **dict.fromkeys(
        ("HubStrategy", "IntervalStrategy", "SaveStrategy", "SchedulerType"),
        "transformers/trainer_utils.py",
    ),
}
"""Classes of options, and of the values that options take."""

_KINDS: dict[str, Any] = {
    "int": int | None,
    "float": float | None,
    "list[str]": list[str] | None,
    "list[float]": list[float] | None,
}
"""Types that are checked here; an option of any other type is read as a text."""


class _TrlOptions(NamedTuple):
    """Options that are read without importing their classes."""

    fields: type
    """A dataclass of the options. None stands for an option that is not given."""
    are_all: bool
    """Whether the file of every class was found, so that no option is missing."""
    defaults: dict[str, Any]
    """The defaults of the options, where these are constants."""


def trl_options(classes: Collection[str], *, but: Collection[str]) -> _TrlOptions:
    """Read the options of TRL's classes of these names, and of those that they extend.

    Options in `but` are left out, because other dataclasses define them.
    """
    options: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    waiting, are_all = list(classes), True
    while waiting:
        definition = _definition(waiting.pop())
        are_all &= definition is not None
        waiting += [ast.unparse(base) for base in definition.bases] if definition else []
        for line in definition.body if definition else ():
            if isinstance(line, ast.AnnAssign):
                name, arguments = ast.unparse(line.target), _field_arguments(line)
                options.setdefault(name, _option(ast.unparse(line.annotation), arguments))
                defaults.setdefault(name, arguments.get("default", {}))
    fields: Any = [(name, *option) for name, option in options.items() if name not in but]
    return _TrlOptions(make_dataclass("TrlFields", fields), are_all, defaults)


def refuse_no_json(options: Any) -> None:
    """Refuse texts that begin as JSON objects, which transformers parses, and are none.

    Args:
        options: An instance of [`trl_options`]'s `fields`.

    Raises:
        ValueError: A text is no JSON. The message does not have it, because it may hold a token.
    """
    for name, value in vars(options).items():
        if isinstance(value, str) and value.startswith("{"):
            try:
                parse_json(value)
            except ValueError as error:
                raise ValueError(
                    f"{name} must be a JSON object, got another text ({error}): for instance "
                    '{"enable_thinking": false}.'
                ) from None


def _definition(name: str) -> ast.ClassDef | None:
    package, _, path = _FILES.get(name, "").partition("/")
    spec = find_spec(package) if package else None
    file = Path(spec.origin).parent / path if spec and spec.origin else None
    return _classes(file).get(name) if file is not None and file.exists() else None


@cache
def _classes(file: Path) -> dict[str, ast.ClassDef]:
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return {part.name: part for part in body if isinstance(part, ast.ClassDef)}


def _field_arguments(line: ast.AnnAssign) -> dict[Any, Any]:
    """Return the arguments of a line's `field(...)`; a bare default counts as one."""
    value: Any = line.value
    if isinstance(value, ast.Call):
        return {keyword.arg: _constant(keyword.value) for keyword in value.keywords}
    return {"default": _constant(value)}


def _option(annotation: str, arguments: dict[Any, Any]) -> tuple[Any, Any]:
    """Return the type of an option and its field."""
    metadata, default = arguments.get("metadata", {}), arguments.get("default", {})
    metadata = {name: metadata[name] for name in ("nargs", "const", "choices") if name in metadata}
    if metadata.get("choices") == {}:  # they are computed
        del metadata["choices"]
    kinds = annotation.split(" | ")
    kind: Any = None
    if "bool" in kinds:  # it needs no value, and one that is on has a twin that begins with no_
        kind = bool | None if default is None else bool
        return kind, field(default=True if default is True else None, metadata=metadata)
    if several := [kind for kind in kinds if kind.startswith("list[")]:
        kind = _KINDS.get(several[0], list[str] | None)
    elif choices := _values(_definition(kinds[0])):
        kind = Optional[Literal[choices]]  # noqa: UP045 (pyright knows no other)
    elif set(kinds[1:]) <= {"None"}:
        kind = _KINDS.get(kinds[0])
    return kind or str | None, field(default=None, metadata=metadata)


def _values(enumeration: ast.ClassDef | None) -> tuple[Any, ...]:
    lines = enumeration.body if enumeration else ()
    return tuple(_constant(line.value) for line in lines if isinstance(line, ast.Assign))


def _constant(node: Any) -> Any:
    """Return a constant; a dictionary or list of constants; of all else, `{}`."""
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {_constant(key): _constant(value) for key, value in pairs}
    if isinstance(node, ast.List):
        return [*map(_constant, node.elts)]
    return node.value if isinstance(node, ast.Constant) else {}
