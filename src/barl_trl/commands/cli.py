"""The `barl` command. Each command is a module here with `run(argv)`, which parses its options."""

import argparse
import io
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version
from typing import Any, NoReturn

from ..trainer.redaction import redacted

COMMANDS = {
    "train": "train a model with BARL or another credit, from a YAML recipe and options",
    "evaluate": "measure accuracy and pass@k on benchmarks, and write every response to a file",
    "compare": "compare evaluated models: differences in accuracy, with intervals",
    "inspect": "make a page of what every rollout believed, and what weight each token had",
    "data": "list rows of a dataset that cannot be used or deserve a look: `barl data check FILE`",
    "recipes": "list the shipped recipes, or print one: `barl recipes NAME > my.yaml`",
}


class OneLineParser(argparse.ArgumentParser):
    """A parser whose mistakes are a `ValueError` of one line, with the nearest option."""

    def __init__(self, *args: Any, **kwargs: Any):
        defaults = {"formatter_class": argparse.ArgumentDefaultsHelpFormatter}
        super().__init__(*args, **defaults | kwargs, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise the message, without the usage that argparse puts before it."""
        raise ValueError(message)

    def parse_known_args(self, args=None, namespace=None) -> Any:
        """Parse, and refuse what is unknown before what is missing: it may be misspelt."""
        words = [*(sys.argv[1:] if args is None else args)]
        for word in words:
            name = word.split("=")[0]  # the value may be a secret
            if name.startswith("--") and name not in (*self._option_string_actions, "--"):
                self.error(unknown(name, self._option_string_actions))
        parsed, rest = super().parse_known_args(words, namespace)
        if rest:
            self.error(f"unexpected argument {rest[0]!r}: --help lists what there is.")
        return parsed, rest


def unknown(name: str, options: Iterable[str]) -> str:
    """Return the message about an option that is none of `options`, with the nearest ones."""
    options, letters = [*options], name.strip("-")
    parts_of = {one: one.strip("-").split("_") for one in options}
    nearest = [o for o, parts in parts_of.items() if "".join(p[:1] for p in parts) == letters]  # lr
    nearest = nearest or get_close_matches(name, options, n=1)
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else "--help lists the options."
    return f"unknown option {name}: {hint}"


def main(argv: list[str] | None = None) -> None:
    """Run the `barl` command, and end a user's mistake with one line and exit status 2."""
    command, *options = (sys.argv[1:] if argv is None else argv) or ["--help"]
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PLW1514, SIM115 (closed by `>&-`)
    if isinstance(sys.stdout, io.TextIOWrapper):
        with suppress(OSError):  # of a file that cannot be positioned
            sys.stdout.reconfigure(errors="replace")  # of a console that is not UTF-8
    try:
        status = _run(command, options)
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has read enough; the interpreter's end flushes, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except (ValueError, OSError, ImportError) as error:
        _say(command, str(error) or type(error).__name__)
        sys.exit(2)
    except KeyboardInterrupt as interrupt:  # whoever knows what is kept raises it with a sentence
        _say(command, f"interrupted. {interrupt}")
        if "RANK" in os.environ:  # the interpreter's end would wait for the other processes
            os._exit(130)
        sys.exit(130)
    if status:
        sys.exit(status)


def _run(command: str, options: list[str]) -> int | None:
    for word in (command, *options):
        word.encode()  # else pyarrow and safetensors would refuse it when the work is done
    if command in COMMANDS:
        # the command's libraries are imported only now: `barl --help` answers at once
        return import_module(f".{command}", __package__).run(options)
    if command == "--version":
        packages = ("barl-trl", "trl", "transformers", "torch")
        print(", ".join(f"{name} {version(name)}" for name in packages))
    elif command in ("-h", "--help"):
        print("usage: barl COMMAND [OPTIONS]   or: barl --version\n")
        print("\n".join(f"  {name:10} {text}" for name, text in COMMANDS.items()))
    else:
        nearest = get_close_matches(command, COMMANDS, n=1)
        hint = f"did you mean {nearest[0]}?" if nearest else "`barl --help` says what they do."
        raise ValueError(f"COMMAND must be one of {', '.join(COMMANDS)}, got {command!r}: {hint}")
    return None


def _say(command: str, text: str) -> None:
    """Print a line on standard error; the processes of a launch say the same, so one says it."""
    if os.environ.get("RANK", "0") == "0":
        name = f"barl {command}" if command in COMMANDS else "barl"
        text = text.replace("path_or_id", {"train": "dataset_name"}.get(command, "FILE"))
        line = redacted(f"{name}: {' '.join(text.split())}")
        # the name of a file, or what a model wrote, must not command the terminal
        print("".join(c if c.isprintable() else repr(c)[1:-1] for c in line), file=sys.stderr)
