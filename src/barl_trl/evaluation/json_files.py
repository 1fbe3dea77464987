"""JSON files: read with errors of one line that name the file, and written as a whole."""

import json
from pathlib import Path
from typing import Any


def regular(path: Path) -> Path:
    """Return a path, but refuse a folder, pipe or device, on which a reader may wait for ever."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} must be a regular file, got a folder, pipe or device: name one.")
    return path


def read_object(path: Path, **kinds: type) -> dict[str, Any]:
    """Return the object in a JSON file, with a value of its type for each key in `kinds`."""
    text = regular(path).read_bytes()
    try:
        content = json.loads(text)
        wrong = [key for key, kind in kinds.items() if not isinstance(content.get(key), kind)]
    except (AttributeError, RecursionError, ValueError) as error:
        raise ValueError(f"{path} must hold a JSON object, got another text: {error}") from None
    if wrong:
        kind, value = kinds[wrong[0]].__name__, content.get(wrong[0])
        raise ValueError(f"{path} must have {wrong[0]}, of type {kind}, got {value!r:.40}.")
    return content


def write_json(path: Path, content: Any) -> None:
    """Write a file, and make its folder. A process that is killed leaves what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)
