"""Functions and classes of users, by the dotted paths that a command line or a recipe gives."""

import os
import sys
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import Any


def refuse_no_path(path: str, argument: str) -> None:
    """Refuse a text that is no dotted path; nothing is imported.

    Raises:
        ValueError: It is none.
    """
    if "." not in path or not all(part.isidentifier() for part in path.split(".")):
        raise ValueError(
            f"{argument} must be the dotted path of a callable, got {path!r}: name it as "
            "my_module.my_function, with my_module.py in the working directory or installed."
        )


def callable_at(path: str, argument: str) -> Callable[..., Any]:
    """Import the callable at a dotted path, also from the working directory.

    Args:
        path: The path, such as `my_module.my_function`.
        argument: What an error message calls it.

    Raises:
        ValueError: There is none.
    """
    refuse_no_path(path, argument)
    # A console script, unlike `python -m`, does not have the working directory on its path. It is
    # put at the end, because it must not shadow an installed package. It stays there, because it
    # also has what a function imports when it is called, or in processes of its own.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    module_name, _, name = path.rpartition(".")
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise ValueError(
            f"{argument} must be importable, got {path!r} ({error}): put its module beside the "
            "script, or on PYTHONPATH."
        ) from None
    target = getattr(module, name, None)  # not vars(): TRL's modules load their names lazily
    if not callable(target):
        near = get_close_matches(name, [key for key in dir(module) if key[0] != "_"], n=1)
        hint = f"did you mean {near[0]!r}?" if near else "name another."
        raise ValueError(f"{argument} must be a callable in {module_name}, got {path!r}: {hint}")
    return target
