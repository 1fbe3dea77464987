"""What a TRL that barl-trl was not run with leads to: an error where it changed, else a warning."""

import warnings
from functools import cache
from importlib.metadata import version

from packaging.specifiers import SpecifierSet

TESTED = {"trl": ">=1.16,<1.17", "transformers": ">=5.17,<5.24"}
"""The versions that were run: those of constraints.txt and of constraints-lowest.txt."""


@cache
def check_trl() -> None:
    """Look once for all that barl-trl relies on in TRL.

    Raises:
        ImportError: Some of it is not there.
    """
    from trl import GRPOConfig, GRPOTrainer

    from .trl_contract import changes

    if found := changes(GRPOTrainer, GRPOConfig):
        raise changed_trl("; ".join(found))
    if not all(is_tested(name) for name in TESTED):
        warnings.warn(
            f"barl-trl was not run with {_installed()}, but with {_tested()}. What it relies on in "
            f"TRL is there. To go back: {_way_back()}",
            stacklevel=4,
        )


def is_tested(name: str) -> bool:
    """Say whether the installed version of a package is one that was run."""
    return SpecifierSet(TESTED[name]).contains(version(name), prereleases=True)


def changed_trl(what: str) -> ImportError:
    """Return the error that says what changed in TRL, and which versions were run."""
    is_patched = is_tested("trl")
    way_out = "leave out what patches TRL in this process" if is_patched else _way_back()
    return ImportError(
        f"trl must be as barl-trl relies on it, got {_installed()}: {what}. barl-trl was run with "
        f"{_tested()}: {way_out}."
    )


def _installed() -> str:
    return " and ".join(f"{name} {version(name)}" for name in TESTED)


def _tested() -> str:
    return " and ".join(f"{name}{versions}" for name, versions in TESTED.items())


def _way_back() -> str:
    return "pip install " + " ".join(f"'{name}{versions}'" for name, versions in TESTED.items())
