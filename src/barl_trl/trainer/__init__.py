"""`BARLTrainer` and `BARLConfig`: the only place that knows TRL's internals.

README.md beside this file draws what runs when.
"""

import lazy_loader

from .contract import TESTED, changed

# Names are imported on first use, so that the fields of a recipe can be read without TRL.
_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str):
    try:
        return _attribute(name)
    except ImportError as error:
        package, inside, _ = (error.name or "").partition(".")
        if not (inside and package in TESTED):
            raise
        raise changed(str(error), package) from None
