"""The parser of options and recipes: TRL's, with what is wrong in a recipe by its line."""

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from trl import TrlParser

from .parsers import OneLineParser
from .shipped import file_of

KINDS = {"int": "a whole number", "float": "a number", "string_to_bool": "true or false"}
"""What argparse's converters of values read."""


class RecipeParser(OneLineParser, TrlParser):
    """TRL's parser of options, and of a YAML recipe (`--config FILE`) that gives their defaults."""

    takes_recipe = True

    def parse_args_and_config(self, args: Iterable[str], **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Check the recipe, and parse as TRL."""
        words: list[str] = []
        for word in args:
            is_joined = word.startswith("--config=")
            words += word.split("=", 1) if is_joined else [word]
        if "--config" in words:
            place = words.index("--config") + 1
            if place == len(words) or words[place].startswith("--"):
                self.error("--config must be followed by a recipe, got nothing")
            try:
                words[place] = str(file_of("config", words[place]))
            except ValueError as error:
                self.error(str(error))
            self._check(words[place])
        return super().parse_args_and_config(words, **kwargs)

    def _check(self, path: str) -> None:
        """Refuse a recipe that cannot be read, has unknown options or values of another type."""
        values, lines = self._read(path)
        actions = {action.dest: action for action in self._actions}
        for name, value in values.items():
            place = f"{path}, line {lines.get(name, 1)}"
            action = actions.get(name)
            if not isinstance(name, str) or (action is None and name != "env" and self.knows_all):
                self.error(f"{place}: {self.unknown_option(str(name), actions)}")
            if action is not None:
                broken = _broken_rule(action, value)
                if broken:
                    self.error(f"{place}: {name} must be {broken}, got {value!r}")

    def _read(self, path: str) -> tuple[Mapping[Any, Any], dict[Any, int]]:
        """Return the options of a recipe, and the line of each."""
        try:
            text = Path(path).read_text(encoding="utf-8")
            root, values = yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            self.error(f"--config must be a YAML file, got {path} ({reason})")
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            self.error(f"{path}, line {line}: this is no YAML: {error.problem}")
        except yaml.YAMLError as error:
            self.error(f"{path}: this is no YAML: {' '.join(str(error).split())}")
        if not isinstance(values, Mapping) or not isinstance(root, yaml.MappingNode):
            self.error(f"{path} must hold options as `name: value`, got {type(values).__name__}")
        lines: dict[Any, int] = {}
        for key, _ in root.value:
            line = key.start_mark.line + 1
            if lines.setdefault(key.value, line) != line:
                self.error(
                    f"{path}, line {line}: {key.value} is in line {lines[key.value]} already"
                )
        return values, lines


def _broken_rule(action: argparse.Action, value: Any) -> str | None:
    """Return what a value of a recipe must be, if it is not."""
    if value is None:
        return "set" if action.required else None
    convert: Any = action.type
    if convert in (None, str):
        return None
    are_several = action.nargs in ("+", "*") and isinstance(value, list)
    for part in value if are_several else [value]:
        try:
            converted = convert(str(part))
        except (ValueError, TypeError, argparse.ArgumentTypeError):
            return KINDS.get(getattr(convert, "__name__", ""), "of another type")
        if action.choices is not None and converted not in action.choices:
            return f"one of {', '.join(map(str, action.choices))}"
    return None
