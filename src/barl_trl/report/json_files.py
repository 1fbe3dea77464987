"""Texts and JSON of files: what they hold, or a mistake in one line that names the file."""

import json
from pathlib import Path
from typing import Any

_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a number",
}


def regular(path: str | Path) -> Path:
    """Return the path of what a reader need not wait for: no pipe, device or folder.

    Raises:
        ValueError: It is one.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} must be a regular file, got a folder, pipe or device: name one.")
    return path


def read_text(path: str | Path) -> str:
    """Return the text of a file.

    Raises:
        FileNotFoundError: There is none.
        ValueError: It is no file, or no UTF-8 text.
    """
    try:
        return regular(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8 text, got {error}: convert the file.") from None


def parse_json(text: str, **options: Any) -> Any:
    """Return what JSON means.

    Args:
        text: The JSON.
        **options: As of `json.loads`.

    Raises:
        ValueError: It is no JSON, or nested too deeply.
    """
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("it is nested too deeply.") from None


def read_json(path: str | Path, **kinds: type) -> Any:
    """Return what a JSON file holds.

    Args:
        path: The file.
        **kinds: What it must have if it is an object: the type of each key's value.

    Raises:
        FileNotFoundError: There is none.
        ValueError: It is no JSON file, or lacks a key.
    """
    text = read_text(path)
    try:
        value = parse_json(text)
    except ValueError as error:
        raise ValueError(f"{path} must hold JSON, got {error}: write it again.") from None
    for key, kind in kinds.items():
        found = value.get(key) if isinstance(value, dict) else None
        number = kind is float and isinstance(found, int)  # 1 may stand for 1.0
        if not (number or isinstance(found, kind)):
            raise ValueError(
                f"{path} must have {key}, {_KINDS[kind]}, got {found!r:.40}: write it again."
            )
    return value
