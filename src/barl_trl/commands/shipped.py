"""Recipes and accelerate configurations that are in the package, by name."""

from difflib import get_close_matches
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
FOLDERS = {"config": PACKAGE / "recipes", "accelerate_config": PACKAGE / "accelerate_configs"}
"""Folder of the files that an option names."""


def names(option: str) -> list[str]:
    """Return the names that an option of [`FOLDERS`] takes beside files."""
    folder = FOLDERS[option]
    paths = sorted(folder.rglob("*.yaml"))
    return [path.relative_to(folder).with_suffix("").as_posix() for path in paths]


def file_of(option: str, value: str) -> Path:
    """Return the file that the value of an option names: a file of the user's, or a shipped one.

    Raises:
        ValueError: There is neither.
    """
    own, shipped = Path(value), FOLDERS[option] / f"{value}.yaml"
    if own.is_file():
        return own
    if shipped.is_file():
        return shipped
    nearest = get_close_matches(own.stem, names(option), n=1)
    hint = f"did you mean {nearest[0]}?" if nearest else "`barl recipes` lists them."
    raise ValueError(f"--{option} must be a YAML file or a shipped name, got {value}: {hint}")
