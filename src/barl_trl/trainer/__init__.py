"""`BARLTrainer` and `BARLConfig`: the only place that knows TRL's internals.

README.md beside this file draws what runs when.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .tested_versions import changed_trl

if TYPE_CHECKING:
    from .barl_config import BARLConfig as BARLConfig
    from .barl_trainer import BARLTrainer as BARLTrainer
    from .methods import make_trainer as make_trainer

# Resolved on first use, as in `barl_trl`: the fields of a recipe are had without TRL.
_MODULES = {
    "BARLConfig": "barl_config",
    "BARLTrainer": "barl_trainer",
    "make_trainer": "methods",
}
__all__ = sorted(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    except ImportError as error:
        if not (error.name or "").startswith("trl."):
            raise
        raise changed_trl(str(error)) from None
