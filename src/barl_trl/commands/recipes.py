"""`barl recipes`: list the shipped recipes and accelerate configurations, or print one."""

import sys
from difflib import get_close_matches
from pathlib import Path

from .cli import OneLineParser

_PACKAGE = Path(__file__).parents[1]
FOLDERS = {"config": _PACKAGE / "recipes", "accelerate_config": _PACKAGE / "accelerate_configs"}
"""Folder of the shipped files that an option names."""
_TITLES = {
    "config": "Recipes: barl train --config NAME --dataset_name PATH_OR_ID",
    "accelerate_config": "Launching: barl train --accelerate_config NAME",
}


def names(option: str) -> list[str]:
    """Return the names of shipped files that an option of [`FOLDERS`] takes."""
    folder = FOLDERS[option]
    return sorted(p.relative_to(folder).with_suffix("").as_posix() for p in folder.rglob("*.yaml"))


def file_of(option: str, value: str) -> Path:
    """Return the file that the value of an option names: a file of the user's, or a shipped one.

    Raises:
        ValueError: There is no such file, and no shipped one of that name.
    """
    for path in (Path(value), FOLDERS[option] / f"{value}.yaml"):
        if path.is_file():
            return path
    nearest = get_close_matches(Path(value).stem, names(option), n=1)
    hint = f"did you mean {nearest[0]}?" if nearest else "`barl recipes` lists them."
    raise ValueError(f"--{option} must be a YAML file or a shipped name, got {value}: {hint}")


def run(argv: list[str]) -> None:
    """List the files, or print one."""
    parser = OneLineParser(
        prog="barl recipes",
        description="Lists the shipped recipes and accelerate configurations, or prints one.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="the one to print")
    options = parser.parse_args(argv)
    if options.name is not None:
        every = {name: option for option in FOLDERS for name in names(option)}
        option = every.get(options.name, "config")
        if options.name not in every:
            near = get_close_matches(options.name, every, n=1)
            hint = f"did you mean {near[0]}?" if near else "`barl recipes` lists them."
            raise ValueError(f"NAME must be a shipped name, got {options.name}: {hint}")
        sys.stdout.write(file_of(option, options.name).read_text(encoding="utf-8"))
        return
    for option, title in _TITLES.items():
        print(f"{title}\n")
        width = max(map(len, names(option))) + 2
        for name in names(option):
            print(f"  {name:{width}}{_first_comment(FOLDERS[option] / f'{name}.yaml')}")
        print()
    print("barl recipes NAME > my.yaml: a copy to change.")


def _first_comment(path: Path) -> str:
    """Return the sentence with which a file begins."""
    comment = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# "):
            break
        comment.append(line.removeprefix("# "))
        if line.endswith("."):
            break
    return " ".join(comment)
