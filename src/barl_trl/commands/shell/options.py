"""The options of commands that take recipes: TRL's parser, a short help, mistakes found early."""

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import pairwise
from typing import Any

import yaml
from trl import TrlParser

from ...report.json_files import read_text
from ..recipes import file_of
from .parsers import HelpFormatter, OneLineParser
from .trl_options import refuse_no_json, trl_options


class RecipeParser(OneLineParser, TrlParser):
    """TRL's parser of options, and of a YAML recipe (`--config FILE`) that gives their defaults."""

    takes_recipe = True

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        for action in self._actions:  # --an-option is taken, too, but need not be shown
            action.option_strings = [n for n in action.option_strings if "-" not in n.lstrip("-")]

    def parse_args_and_config(self, args: Iterable[str], **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Check the recipe, and parse as TRL."""
        words: list[str] = []
        for word in args:
            words += word.split("=", 1) if word.startswith("--config=") else [word]
        if "--config" in words:
            place = words.index("--config") + 1
            if place == len(words) or words[place].startswith("--"):
                self.error("--config must be followed by a recipe, got nothing")
            words[place] = str(file_of("config", words[place]))
            self._check(words[place])
        return super().parse_args_and_config(words, **kwargs)

    def _check(self, path: str) -> None:
        """Refuse a recipe that cannot be read, has unknown options or values of another type."""
        text = read_text(path)
        try:
            root, recipe = yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError) as error:
            self.error(f"{path}: this is no YAML: {' '.join(str(error).split())}")
        if not isinstance(recipe, Mapping) or not isinstance(root, yaml.MappingNode):
            self.error(f"{path} must hold options as `name: value`, got {type(recipe).__name__}")
        lines: dict[Any, int] = {}
        for key, _ in root.value:
            line = key.start_mark.line + 1
            if key.value in lines:
                self.error(
                    f"{path}, line {line}: {key.value} is in line {lines[key.value]} already"
                )
            lines[key.value] = line
        actions = {action.dest: action for action in self._actions}
        for name, value in recipe.items():
            place, action = f"{path}, line {lines.get(name, 1)}", actions.get(name)
            if action is None:
                if name in ("accelerate_config", "num_processes"):
                    how = f"give --{name} {value} on the command line"
                    self.error(f"{place}: {name} is read before the recipe: {how}")
                if not isinstance(name, str) or (name != "env" and self.knows_all):
                    self.error(f"{place}: {self.unknown_option(str(name), actions)}")
            elif value is not None:
                are_several = action.nargs in ("+", "*") and isinstance(value, list)
                try:
                    self._get_values(action, [*map(str, value if are_several else [value])])
                except argparse.ArgumentError as error:
                    self.error(f"{place}: {error}")
            elif action.required:
                self.error(f"{place}: {name} must be set, got None")


def parse_early(
    prog: str, argv: Sequence[str], first: Sequence[type], *, trl: Sequence[str] = ()
) -> tuple[Any, ...] | None:
    """Parse as far as it needs no TRL, whose import takes ten times as long, or print the help.

    Args:
        prog: The command, such as `"barl train"`.
        argv: The options of the command.
        first: Dataclasses of the options that the short help shows, which need no TRL.
        trl: Names of TRL's classes whose options the command takes, too.

    Returns:
        An instance of each of `first`, and one that has the options of `trl`; None if all options
        are to be listed, or TRL's options are not known.

    Raises:
        ValueError: A field breaks its rule.
        SystemExit: Help was asked for, or an option is unknown, missing or of another type.
    """
    if {"-h", "--help"} & set(argv):
        _print_short_help(prog, first, argv)
    if "--help-all" in argv:
        return None
    of_trl = trl_options(trl, but=[option.name for kind in first for option in fields(kind)])
    parser = _parser(prog, (*first, of_trl.fields), add_help=False)
    parser.knows_all = bool(trl) and of_trl.are_all
    *early, _ = parser.parse_args_and_config(argv, return_remaining_strings=True)
    refuse_no_json(early[-1])
    return tuple(early) if parser.knows_all else None


def parse_options(
    prog: str, argv: Sequence[str], dataclasses: Iterable[type], **defaults: Any
) -> tuple[Any, ...]:
    """Parse options and a recipe (`--config FILE`) into an instance of each of `dataclasses`.

    `--help-all` lists the options. `defaults` are those that this machine needs, by name. It raises
    what [`parse_early`] raises.
    """
    parser = _parser(prog, dataclasses)
    parser.set_defaults(**defaults)
    if "--help-all" in argv:
        parser.print_help()
        raise SystemExit
    return parser.parse_args_and_config(argv)


def _parser(prog: str, dataclasses: Iterable[type], **kwargs) -> RecipeParser:
    usage, types = f"{prog} [--config RECIPE] [OPTIONS]", tuple(dataclasses)
    parser = RecipeParser(types, prog=prog, usage=usage, **kwargs)  # type: ignore[arg-type]
    parser.lists_all = "--help-all"
    return parser


def _print_short_help(prog: str, first: Iterable[type], argv: Sequence[str]) -> None:
    """Print the first sentence of each option's text, and end the command.

    Defaults are those of the recipe, if there is one.
    """
    formatter: Any = partial(HelpFormatter, max_help_position=34)
    parser = _parser(prog, first, add_help=False, formatter_class=formatter)
    if recipe := dict(pairwise(argv)).get("--config"):
        path = str(file_of("config", recipe))
        parser.knows_all = False  # a recipe has TRL's options, too
        parser._check(path)
        values = yaml.safe_load(read_text(path))
        known = {action.dest for action in parser._actions}
        parser.set_defaults(**{name: values[name] for name in known & values.keys()})
    for action in parser._actions:
        sentence = re.split(r"(?<=\.) (?=[A-Z`])", action.help or "")[0].removesuffix(".")
        choices = f": {' | '.join(map(str, action.choices))}" if action.choices else ""
        action.help, action.metavar, action.nargs = f"{sentence}{choices}", "", None
    parser.add_argument(
        "--config", metavar="", help="a YAML file of options, or a name that `barl recipes` lists"
    )
    parser.add_argument("--help-all", action="store_true", help="every option, also TRL's, in full")
    parser.print_help()
    raise SystemExit
