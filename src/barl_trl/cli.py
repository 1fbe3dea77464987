"""The `barl` command. Each command's own options: `barl COMMAND --help`."""

import io
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version

from . import __version__
from .commands.shell.console import mistakes_in_one_line
from .commands.shell.interruption import ended_in_one_line
from .commands.shell.parsers import Mistake
from .commands.shell.terminal import escape_logs_and_tracebacks

COMMANDS = {
    "train": "train a model with BARL or a baseline, from a YAML recipe and options",
    "recipes": "list the shipped recipes, or print one: `barl recipes show NAME > my.yaml`",
    "plan": "print the batches, tokens, steps and memory of a recipe, before anything is loaded",
    "data": "list rows of a dataset that cannot be used or deserve a look: `barl data check FILE`",
    "evaluate": "measure accuracy and pass@k on benchmarks, and write every response to a file",
    "compare": "say whether one arm is better than another, over training seeds and problems",
    "inspect": "make a page of what every rollout believed, and what weight each token had",
}

MODULES = {"data": "check_data"}
"""Commands whose module has another name."""


@contextmanager
def _ended_if_nobody_reads() -> Iterator[None]:
    """End with one line and the status of SIGPIPE if the output is no longer read (`| head`)."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        output = select.poll()
        output.register(sys.stdout, 0)
        if not output.poll(0):
            raise  # it is another pipe that broke
        # the interpreter's end flushes, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write("barl: ended, because nothing reads its output any more.\n")
        sys.exit(128 + signal.SIGPIPE)


@_ended_if_nobody_reads()
def main(argv: list[str] | None = None) -> None:
    """Run the `barl` command."""
    argv = sys.argv[1:] if argv is None else argv
    if isinstance(sys.stdout, io.TextIOWrapper):  # `?` for what its encoding lacks
        sys.stdout.reconfigure(errors="replace")
    escape_logs_and_tracebacks()
    _refuse_unread_bytes(argv)
    command = argv[0] if argv else "--help"
    if command in COMMANDS:
        # the command's libraries are imported only now: `barl --help` answers at once
        with ended_in_one_line(command):
            module = import_module(f".commands.{MODULES.get(command, command)}", __package__)
            if hasattr(module, "run"):
                with mistakes_in_one_line(f"barl {command}", are_everywhere=True):
                    module.run(argv[1:])
            else:
                module.main(argv[1:])
        return
    if command == "--version":
        packages = ("barl-trl", "trl", "transformers", "torch")
        print(", ".join(f"{name} {_version(name)}" for name in packages))
        return
    usage = "usage: barl COMMAND [OPTIONS]   or: barl --version\n\n" + "\n".join(
        f"  {name:10} {text}" for name, text in COMMANDS.items()
    )
    if command in ("-h", "--help"):
        print(usage)
    else:
        nearest = get_close_matches(command, COMMANDS, n=1)
        hint = f": did you mean {nearest[0]}?" if nearest else ": `barl --help` says what they do."
        raise Mistake(f"barl: COMMAND must be one of {', '.join(COMMANDS)}, got {command!r}{hint}")


def _refuse_unread_bytes(argv: list[str]) -> None:
    """Refuse what Python could not decode: pyarrow and safetensors would, after hours of work."""
    for text in argv:
        if any("\udc80" <= one <= "\udcff" for one in text):
            raise Mistake(
                f"barl: arguments must be text in {sys.getfilesystemencoding()}, got {text!r}: set "
                "PYTHONUTF8=1 or LC_ALL=C.UTF-8, and rename files whose names are not in UTF-8."
            )


def _version(package: str) -> str:
    return __version__ if package == "barl-trl" else version(package)


if __name__ == "__main__":
    main()
