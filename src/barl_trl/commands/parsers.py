"""Parsers that say a mistake in one line: with the nearest option, and without the usage."""

import argparse
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from copy import copy
from difflib import get_close_matches
from typing import Any, NoReturn


def printable(text: str) -> str:
    r"""Return a text without commands to a terminal, which names of files may hold.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return "".join(
        repr(one)[1:-1] if unicodedata.category(one) == "Cc" and one not in "\n\t" else one
        for one in text
    )


class Mistake(SystemExit):
    """Ends a command with exit status 2, after a line on standard error.

    Args:
        text: The line.
        is_said: Whether it is printed.
    """

    def __init__(self, text: str, *, is_said: bool = True):
        text = printable(text)
        super().__init__(text)
        self.code = 2
        if is_said:
            print(text, file=sys.stderr)


def is_first_process() -> bool:
    """Whether this is the only process of a launch, or the first."""
    return os.environ.get("RANK", "0") == "0"


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults but None and a flag's, and `--an_option` without its twin `--an-option`."""

    def _get_help_string(self, action):
        if action.default is None or action.nargs == 0:
            return action.help
        return super()._get_help_string(action)

    def _format_action_invocation(self, action):
        twins = {name.replace("_", "-") for name in action.option_strings if "_" in name}
        shown = copy(action)
        shown.option_strings = [name for name in action.option_strings if name not in twins]
        return super()._format_action_invocation(shown)


class OneLineParser(argparse.ArgumentParser):
    """A parser that says a mistake in one line.

    Attributes:
        knows_all: Whether an option that it does not know is a mistake.
        lists_all: The option that lists all options.
        takes_recipe: Whether there is `--config`.
    """

    knows_all = True
    lists_all = "--help"
    takes_recipe = False
    _required: Sequence[argparse.Action] = ()

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **{"formatter_class": HelpFormatter} | kwargs)

    def error(self, message: str) -> NoReturn:
        """End the command, without the usage that argparse puts before the mistake."""
        message = re.sub(r"(--\w+)/--[\w-]+", r"\1", message)
        end = "" if message.endswith(("?", ".")) else "."
        # all processes of a launch make the same mistake
        raise Mistake(f"{self.prog}: {message}{end}", is_said=is_first_process())

    def parse_known_args(self, args=None, namespace=None) -> Any:
        """Parse, and look for unknown options before missing ones: they may be misspelt."""
        required = [action for action in self._actions if action.required]
        for action in required:
            action.required = False
        self._required = required
        found, unknown = super().parse_known_args(args, namespace)
        if unknown and (self.knows_all or not unknown[0].startswith("-")):
            self.error(self._about(unknown))
        missing = [action for action in required if getattr(found, action.dest) is None]
        if missing and not unknown:
            names = [str(a.option_strings[0] if a.option_strings else a.metavar) for a in missing]
            self.error(f"the following arguments are required: {', '.join(names)}")
        return found, unknown

    def format_help(self) -> str:
        """Return the help, which shows what must be given without brackets."""
        for action in self._required:
            action.required = True
        return super().format_help()

    def unknown_option(self, name: str, known: Iterable[str]) -> str:
        """Return what to say of an option that is none of the known ones."""
        nearest = get_close_matches(name, list(known), n=1)
        if nearest:
            return f"unknown option {name}: did you mean {nearest[0]}?"
        return f"unknown option {name}: `{self.prog} {self.lists_all}` lists the options"

    def _about(self, unknown: Sequence[str]) -> str:
        first = unknown[0]
        if first.startswith("-"):  # its value may be a secret
            return self.unknown_option(first.split("=")[0], self._option_string_actions)
        if self.takes_recipe and first.endswith((".yaml", ".yml")):
            return f"a recipe must come after --config, got {first}: {self.prog} --config {first}"
        return f"unexpected argument {first!r}: `{self.prog} {self.lists_all}` lists the options"
