"""`barl recipes`: list the shipped recipes and accelerate configurations, or print one."""

import sys
from difflib import get_close_matches
from pathlib import Path

from ..report.json_files import read_text
from .shell.parsers import OneLineParser

_PACKAGE = Path(__file__).parents[1]
FOLDERS = {"config": _PACKAGE / "recipes", "accelerate_config": _PACKAGE / "accelerate_configs"}
"""Folder of the shipped files that an option names."""
_TITLES = {
    "config": "Recipes: barl train --config NAME --dataset_name PATH_OR_ID",
    "accelerate_config": "Launching: barl train --accelerate_config NAME",
}


def _names(option: str) -> list[str]:
    """Return the names of shipped files that an option of [`FOLDERS`] takes."""
    folder = FOLDERS[option]
    paths = sorted(folder.rglob("*.yaml"))
    return [path.relative_to(folder).with_suffix("").as_posix() for path in paths]


def file_of(option: str, value: str) -> Path:
    """Return the file that the value of an option names: a file of the user's, or a shipped one.

    Raises:
        ValueError: There is no such file, and no shipped one of that name; or an accelerate
            configuration holds none.
    """
    for path in (Path(value), FOLDERS[option] / f"{value}.yaml"):
        if path.is_file():
            if option == "accelerate_config":  # recipes are checked where they are parsed
                _refuse_no_settings(path)
            return path
    nearest = get_close_matches(Path(value).stem, _names(option), n=1)
    hint = f"did you mean {nearest[0]}?" if nearest else "`barl recipes` lists them."
    raise ValueError(f"--{option} must be a YAML file or a shipped name, got {value}: {hint}")


def _refuse_no_settings(path: Path) -> None:
    """Refuse what accelerate would end with a traceback for."""
    import yaml  # imported late: `barl recipes` parses nothing

    try:
        settings = yaml.safe_load(read_text(path))
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"{path} must be YAML, got {error}: name another file.") from None
    if not isinstance(settings, dict):
        raise ValueError(
            f"{path} must hold settings as `name: value`, got {type(settings).__name__}: "
            "`accelerate config` makes such a file."
        )


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
        for option, title in _TITLES.items():
            print(f"{title}\n")
            shipped = _names(option)
            width = max(map(len, shipped)) + 2
            for name in shipped:
                print(f"  {name:{width}}{_first_comment(file_of(option, name))}")
            print()
        print("barl recipes show NAME > my.yaml: a copy to change.")
        return
    every = {name: folder / f"{name}.yaml" for o, folder in FOLDERS.items() for name in _names(o)}
    if options.name not in every:
        near = get_close_matches(options.name, every, n=1)
        hint = f": did you mean {near[0]}?" if near else ""
        parser.error(f"NAME must be one that `barl recipes` lists, got {options.name}{hint}")
    sys.stdout.write(every[options.name].read_text(encoding="utf-8"))


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
