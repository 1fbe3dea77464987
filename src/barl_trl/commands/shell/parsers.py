"""Parsers that say a mistake in one line: with the nearest option, and without the usage."""

import argparse
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn


def printable(text: str) -> str:
    r"""Return a text with its control characters escaped: a file's name may command a terminal.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return "".join(
        repr(one)[1:-1] if unicodedata.category(one) == "Cc" and one not in "\n\t" else one
        for one in text
    )


def _initials(option: str) -> str:
    return "".join(part[:1] for part in option.strip("-").split("_"))


class Mistake(SystemExit):
    """Ends a command with exit status 2, after a line on standard error if `is_said`."""

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
    """Shows defaults, except None, those of flags, and those that the text names itself."""

    def _get_help_string(self, action):
        is_said = "(default" in (action.help or "")
        is_left_out = is_said or action.default is None or action.nargs == 0
        return action.help if is_left_out else super()._get_help_string(action)


class OneLineParser(argparse.ArgumentParser):
    """A parser that says a mistake in one line."""

    knows_all = True
    """Whether an unknown option is a mistake."""
    lists_all = "--help"
    """The option that lists all options."""
    takes_recipe = False
    """Whether there is `--config`."""

    def __init__(self, *args: Any, **kwargs: Any):
        defaults = {"formatter_class": HelpFormatter, "allow_abbrev": False}
        super().__init__(*args, **defaults | kwargs)

    def error(self, message: str) -> NoReturn:
        """End the command, without the usage that argparse puts before the mistake."""
        end = "" if message.endswith(("?", ".")) else "."
        # all processes of a launch make the same mistake
        raise Mistake(f"{self.prog}: {message}{end}", is_said=is_first_process())

    def parse_known_args(self, args=None, namespace=None) -> Any:
        """Parse, and look for unknown options before missing ones: they may be misspelt."""
        words = [*(sys.argv[1:] if args is None else args)]
        if self._subparsers is None:
            self._refuse_unknown(words)
        parsed, unknown = super().parse_known_args(words, namespace)
        if unknown and self.knows_all:
            self.error(
                f"unexpected argument {unknown[0]!r}: `{self.prog} {self.lists_all}` lists the "
                "options"
            )
        return parsed, unknown

    def unknown_option(self, name: str, options: Iterable[str]) -> str:
        """Return the message about an option that is none of `options`."""
        options = list(options)
        short = [one for one in options if _initials(one) == name.strip("-")]  # lr, gas
        nearest = short or get_close_matches(name, options, n=1)
        if nearest:
            return f"unknown option {name}: did you mean {' or '.join(nearest)}?"
        return f"unknown option {name}: `{self.prog} {self.lists_all}` lists the options"

    def _refuse_unknown(self, words: Sequence[str]) -> None:
        options = self._option_string_actions
        for before, word in zip(["", *words], words, strict=False):
            name = word.split("=")[0]  # the value may be a secret
            if self.knows_all and name.startswith("--") and name not in (*options, "--"):
                self.error(self.unknown_option(name, options))
            is_value = before.startswith("-")
            if self.takes_recipe and not is_value and re.fullmatch(r"[^-].*\.ya?ml", word):
                recipe = f"{self.prog} --config {word}"
                self.error(f"a recipe must come after --config, got {word}: {recipe}")
