"""Readers of text and JSON files. Their errors are one line that names the file."""

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
    """Return the path of a regular file, which a reader need not wait for, or of no file.

    Raises:
        ValueError: The path is a folder, pipe or device.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} must be a regular file, got a folder, pipe or device: name one.")
    return path


def read_text(path: str | Path) -> str:
    """Return the text of a file.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The path is no regular file, or the file is no UTF-8 text.
    """
    try:
        return regular(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8 text, got {error}: convert the file.") from None


def parse_json(text: str, **options: Any) -> Any:
    """Return the value that a JSON text stands for.

    Args:
        text: The JSON text.
        **options: Further arguments of `json.loads`.

    Raises:
        ValueError: The text is no JSON, or is nested too deeply.
    """
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("it is nested too deeply.") from None


def read_json(path: str | Path, **kinds: type) -> Any:
    """Return the value that a JSON file holds.

    Args:
        path: The file.
        **kinds: Type of the value of each key that the file's object must have. Without any, the
            file may hold any JSON value.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file holds no JSON, or lacks a key, or a key's value is of another type.
    """
    text = read_text(path)
    try:
        value = parse_json(text)
    except ValueError as error:
        fault = str(error).removesuffix(".")
        raise ValueError(f"{path} must hold JSON, got {fault}: write it again.") from None
    for key, kind in kinds.items():
        entry = value.get(key) if isinstance(value, dict) else None
        is_number = kind is float and isinstance(entry, int)  # 1 may stand for 1.0
        if not (is_number or isinstance(entry, kind)):
            raise ValueError(
                f"{path} must have {key}, {_KINDS[kind]}, got {entry!r:.40}: write it again."
            )
    return value


def write_json(path: Path, content: Any) -> None:
    """Write content as JSON, and make the folder if it is missing.

    A process that is killed meanwhile leaves what was there before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)
