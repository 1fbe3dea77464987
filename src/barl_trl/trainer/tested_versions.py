"""A warning where TRL or transformers is another than those that barl-trl was run with."""

import warnings
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement


def warn_outside_tested_versions() -> None:
    """Warn if TRL or transformers lies outside the ranges of barl-trl's requirements.

    pip keeps to them when it installs barl-trl, but not when it upgrades TRL later.
    """
    try:
        requirements = [Requirement(line) for line in requires("barl-trl") or ()]
    except PackageNotFoundError:  # a checkout that is not installed
        return
    tested = [r for r in requirements if r.name in ("trl", "transformers")]
    if not all(r.specifier.contains(version(r.name), prereleases=True) for r in tested):
        found = " and ".join(f"{r.name} {version(r.name)}" for r in tested)
        wanted = " ".join(f"'{r}'" for r in tested)
        warnings.warn(
            f"barl-trl was not tested with {found}: what it relies on in TRL may have changed. To "
            f"go back: pip install {wanted}",
            stacklevel=2,
        )
