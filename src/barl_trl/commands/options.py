"""The options of commands that also take TRL's: a short help, and mistakes that are found early."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from rich.table import Table

from ..trainer.barl_fields import choices_of
from .console import plain_console
from .recipe_parser import RecipeParser

USAGE = "{} [--config RECIPE] [OPTIONS]"


def parse_options(
    prog: str,
    argv: Sequence[str],
    first: Sequence[type],
    everything: Callable[[], Iterable[type]],
    defaults: Callable[[], Mapping[str, Any]] = dict,
) -> tuple[Any, ...]:
    """Parse options and a recipe (`--config FILE`) into dataclasses.

    Help on the first ones, and mistakes in them, need no TRL, whose import takes ten times as long.

    Args:
        prog: The command, such as `"barl train"`.
        argv: Its options.
        first: Dataclasses of the options that help shows, without TRL.
        everything: Imports the dataclasses of all options, and returns them.
        defaults: Returns the defaults that this machine needs, by name.

    Returns:
        An instance of each of `everything`.

    Raises:
        ValueError: A field breaks its rule.
        SystemExit: Help was asked for, or an option is unknown, missing or of another type, in the
            recipe or in `argv`.
    """
    if {"-h", "--help"} & set(argv):
        _print_short_help(prog, first)
    parser = _parser(prog, first, add_help=False, allow_abbrev=False)
    parser.knows_all = False
    if "--help-all" not in argv:
        parser.parse_args_and_config(argv, return_remaining_strings=True)
    parser = _parser(prog, everything())
    parser.set_defaults(**defaults())
    if "--help-all" in argv:
        parser.print_help()
        raise SystemExit
    return parser.parse_args_and_config(argv)


def _parser(prog: str, dataclasses: Iterable[type], **kwargs) -> RecipeParser:
    types: Any = tuple(dataclasses)
    parser = RecipeParser(types, prog=prog, usage=USAGE.format(prog), **kwargs)
    parser.lists_all = "--help-all"
    return parser


def _print_short_help(prog: str, first: Sequence[type]) -> None:
    """Print a line or two for each option, the first sentence of its text, and end."""
    table = Table.grid(padding=(0, 2))
    for option in (option for kind in first for option in fields(kind)):
        text = re.split(r"(?<=\.) (?=[A-Z`])", option.metadata["help"])[0].removesuffix(".")
        choices = " | ".join(filter(None, choices_of(option.type)))
        text = f"{text}: {choices}" if choices else text
        is_shown = isinstance(option.default, str | int | float) and len(str(option.default)) < 20
        default = f" [{option.default}]" if is_shown else ""
        table.add_row(f"  --{option.name}", text + default)
    console = plain_console()
    console.print(f"usage: {USAGE.format(prog)}\n")
    console.print(table)
    console.print(
        "\n  --config RECIPE  a YAML file of options, or a name that `barl recipes` lists\n"
        "  --help-all       every option, TRL's too, with its full text"
    )
    raise SystemExit
