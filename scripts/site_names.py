"""Public names: each must be on the reference page, with typed parameters.

Public is what `__all__` of the package and of its areas lists, and what a code block of the
documentation imports.
"""

import logging
import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import griffe
from site_docstrings import SiteDocstrings, documented, members_of, page_has

ROOT = Path(__file__).parents[1]
AREAS = ("", ".credit", ".graders", ".plausibility", ".trainer")
IMPORT = re.compile(r"^from (barl_trl[\w.]*) import ([\w, ]+)$", re.MULTILINE)


def public_names() -> set[tuple[str, str]]:
    """Return the module and the name of everything public."""
    areas = [f"barl_trl{area}" for area in AREAS]
    names = {(area, name) for area in areas for name in import_module(area).__all__}
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *ROOT.glob("examples/*.py")]:
        for module, imported in IMPORT.findall(page.read_text(encoding="utf-8")):
            names |= {(module, name.strip()) for name in imported.split(",")}
    return names


def read(package: str, folder: Path) -> tuple[griffe.Module, list[str]]:
    """Read a package's sources: what is in them, and what is wrong with its docstrings' form."""
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = logging.getLogger("griffe")
    logger.addHandler(handler)
    try:
        module = griffe.load(
            package,
            search_paths=[folder],
            extensions=griffe.load_extensions(SiteDocstrings),
            docstring_parser="google",
        )
        for member in shown_members(module):
            if member.docstring:
                _ = member.docstring.parsed  # it warns
    finally:
        logger.removeHandler(handler)
    return module, messages


def shown_members(package: griffe.Module) -> list[griffe.Object]:
    """Return everything that the reference page shows of a package."""
    paths = [path.removeprefix(f"{package.name}.") for path in documented()]
    shown = [member for path in paths for member in members_of(package[path])]
    return [member for member in shown if not re.search(r"\._(?!_init__)|\.logger$", member.path)]


def faults(members: Iterable[griffe.Object]) -> list[str]:
    """Return which parameters of what is shown have no type; ruff asks for the docstrings.

    Methods without a docstring override another library's, and are not shown.
    """
    return [
        f"{member.path}: {parameter.name} must have a type."
        for member in members
        if isinstance(member, griffe.Function) and member.has_docstring
        for parameter in member.parameters
        if parameter.annotation is None and parameter.name not in ("self", "cls")
    ]


def without_page(package: griffe.Module, names: Iterable[tuple[str, str]]) -> list[str]:
    """Return the public names that the reference page lacks."""
    paths = [f"{module}.{name}".partition(".")[2] for module, name in names]
    lost = [path for path in paths if not page_has(package[path].canonical_path)]
    return [f"barl_trl.{path} must be on docs/reference.md." for path in sorted(lost)]


def refuse_faults() -> None:
    """End with a list of all faults, if there are any."""
    package, messages = read("barl_trl", ROOT / "src")
    found = messages + without_page(package, public_names())
    found += faults(shown_members(package))
    if found:
        raise SystemExit("\n".join(found))


if __name__ == "__main__":
    refuse_faults()
