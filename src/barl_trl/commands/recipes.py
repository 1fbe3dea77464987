"""`barl recipes`: list the shipped recipes and accelerate configurations, or print one."""

import sys
from pathlib import Path

from .parsers import OneLineParser
from .shipped import FOLDERS, file_of, names

TITLES = {
    "config": "Recipes: barl train --config NAME --dataset_name PATH_OR_ID",
    "accelerate_config": "Launching: barl train --accelerate_config NAME",
}


def main(argv: list[str]) -> None:
    """List the files, or print one."""
    parser = OneLineParser(
        prog="barl recipes",
        description="Lists the shipped recipes and accelerate configurations; `show` prints one.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    show = commands.add_parser("show", help="print one: barl recipes show NAME > my.yaml")
    show.add_argument("name", metavar="NAME", help="a name that `barl recipes` lists")
    options = parser.parse_args(argv)
    if options.command is None:
        for option, title in TITLES.items():
            print(f"{title}\n")
            known = names(option)
            width = max(map(len, known)) + 2
            for name in known:
                print(f"  {name:{width}}{_first_comment(file_of(option, name))}")
            print()
        print("barl recipes show NAME > my.yaml: a copy to change.")
        return
    every = {name: option for option in FOLDERS for name in names(option)}
    if options.name not in every:
        parser.error(f"NAME must be one that `barl recipes` lists, got {options.name}")
    sys.stdout.write(file_of(every[options.name], options.name).read_text(encoding="utf-8"))


def _first_comment(path: Path) -> str:
    """Return the sentence with which a file begins."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# "):
            break
        lines.append(line.removeprefix("# "))
        if line.endswith("."):
            break
    return " ".join(lines)
