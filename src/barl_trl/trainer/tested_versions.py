"""What versions that barl-trl was not run with lead to: a warning, or an error if they changed."""

import warnings
from functools import cache
from importlib.metadata import version

from packaging.specifiers import SpecifierSet

TESTED = {"trl": ">=1.16,<1.17", "transformers": ">=5.17,<5.25"}
"""The versions that were run: by `make test`, `make test-lowest` and `make test-newest`."""


@cache
def check_transformers() -> None:
    """Look once for all that the fast paths rely on in transformers.

    Raises:
        ImportError: Some of it is not there.
    """
    from .transformers_contract import changes

    if found := changes():
        raise changed("; ".join(found), "transformers")


@cache
def check_versions() -> None:
    """Look once for all that barl-trl relies on in TRL and transformers.

    Raises:
        ImportError: Some of it is not there.
    """
    from trl import GRPOConfig, GRPOTrainer

    from .trl_contract import changes

    if found := changes(GRPOTrainer, GRPOConfig):
        raise changed("; ".join(found), "trl")
    check_transformers()
    if not all(is_tested(name) for name in TESTED):
        warnings.warn(
            f"barl-trl was not run with {_installed()}, but with {_tested()}. What it relies on "
            f"is there. To go back: {_way_back()}",
            stacklevel=4,
        )


def is_tested(name: str) -> bool:
    """Say whether the installed version of a package is one that was run."""
    return SpecifierSet(TESTED[name]).contains(version(name), prereleases=True)


def changed(what: str, package: str) -> ImportError:
    """Return the error that says what changed in a package, and which versions were run."""
    is_patched = is_tested(package)
    way_out = f"leave out what patches {package} in this process" if is_patched else _way_back()
    return ImportError(
        f"{package} must be as barl-trl relies on it, got {_installed()}: {what}. barl-trl was "
        f"run with {_tested()}: {way_out}."
    )


def _installed() -> str:
    return " and ".join(f"{name} {version(name)}" for name in TESTED)


def _tested() -> str:
    return " and ".join(f"{name}{versions}" for name, versions in TESTED.items())


def _way_back() -> str:
    return "pip install " + " ".join(f"'{name}{versions}'" for name, versions in TESTED.items())
