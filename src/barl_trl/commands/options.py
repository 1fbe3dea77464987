"""The options of commands that also take TRL's: a short help, and mistakes that are found early."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from rich.table import Table

from ..trainer.barl_fields import choices_of
from .console import plain_console
from .recipe_parser import RecipeParser
from .trl_options import trl_options

USAGE = "{} [--config RECIPE] [OPTIONS]"


def parse_options(
    prog: str,
    argv: Sequence[str],
    first: Sequence[type],
    everything: Callable[[], Iterable[type]],
    defaults: Callable[[], Mapping[str, Any]] = dict,
    *,
    trl: Sequence[str] = (),
    check: Callable[..., None] | None = None,
) -> tuple[Any, ...]:
    """Parse options and a recipe (`--config FILE`) into dataclasses.

    Help and mistakes need no TRL, whose import takes ten times as long: its options are read from
    its files first.

    Args:
        prog: The command, such as `"barl train"`.
        argv: Its options.
        first: Dataclasses of the options that help shows, without TRL.
        everything: Imports the dataclasses of all options, and returns them.
        defaults: Returns the defaults that this machine needs, by name.
        trl: TRL's classes in `everything`, by name.
        check: Refuses other mistakes, by the instances of `first`, and what was given of the
            options of `trl`.

    Returns:
        An instance of each of `everything`.

    Raises:
        ValueError: A field breaks its rule.
        SystemExit: Help was asked for, or an option is unknown, missing or of another type, in the
            recipe or in `argv`.
    """
    if {"-h", "--help"} & set(argv):
        _print_short_help(prog, first)
    if "--help-all" not in argv:
        known = [option.name for kind in first for option in fields(kind)]
        others = trl_options(trl, but=known)
        parser = _parser(prog, (*first, others.fields), add_help=False, allow_abbrev=False)
        parser.knows_all = bool(trl) and others.are_all
        early = parser.parse_args_and_config(argv, return_remaining_strings=True)
        if check is not None and parser.knows_all:
            check(*early[:-1])
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
