"""What griffe does not see in this package's docstrings: an extension that zensical.toml names.

The fields of a named tuple are its parameters, the help of a configuration's field is its
docstring, and a name in brackets and backticks leads to where the reference page has it.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

import griffe

from barl_trl.trainer.config import BARLConfig

PAGE = Path(__file__).parents[1] / "docs" / "reference.md"
DIRECTIVE = re.compile(r"^::: (\S+)", re.MULTILINE)
NAME = re.compile(r"\[`~?([\w.]+)`\](?!\()(?:\[([\w.]+)\])?")


@cache
def documented() -> list[str]:
    """Return the paths of the modules, classes and functions that the reference page shows."""
    return DIRECTIVE.findall(PAGE.read_text(encoding="utf-8"))


def page_has(path: str) -> bool:
    """Return whether the reference page shows the object of a path."""
    return any(f"{path}.".startswith(f"{shown}.") for shown in documented())


def linked(text: str, owner: griffe.Object) -> str:
    """Return a docstring in which names in brackets are links, or code if the page lacks them."""

    def link(found: re.Match) -> str:
        name = found[2] or found[1]
        try:
            path = owner.modules_collection[owner.resolve(name)].canonical_path
        except (griffe.NameResolutionError, griffe.AliasResolutionError, KeyError):
            path = name
        return f"[`{found[1]}`][{path}]" if page_has(path) else f"`{found[1]}`"

    return NAME.sub(link, text)


class SiteDocstrings(griffe.Extension):
    """Completes what mkdocstrings shows."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:
        """Take the help of a configuration's field for its docstring."""
        declared = attr.value
        of_barl = attr.parent is not None and attr.parent.name == BARLConfig.__name__
        if of_barl and isinstance(declared, griffe.ExprCall):
            text = BARLConfig.__dataclass_fields__[attr.name].metadata["help"]
            attr.docstring = griffe.Docstring(text, parent=attr)
            attr.value = declared.arguments[0]

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Give a named tuple the constructor that its fields make."""
        if [str(base) for base in cls.bases] != ["NamedTuple"]:
            return
        fields = [member for member in cls.attributes.values() if member.annotation is not None]
        parameters = griffe.Parameters(
            griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword),
            *(
                griffe.Parameter(
                    field.name,
                    annotation=field.annotation,
                    kind=griffe.ParameterKind.positional_or_keyword,
                    default=field.value,
                )
                for field in fields
            ),
        )
        cls.set_member("__init__", griffe.Function("__init__", parameters=parameters))

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Make links of the names, once every module is there to look them up."""
        for member in members_of(pkg):
            if member.docstring:
                member.docstring.value = linked(member.docstring.value, member)


def members_of(owner: griffe.Object) -> list[griffe.Object]:
    """Return an object and all that is defined in it."""
    inner = [members_of(member) for member in owner.members.values() if not member.is_alias]
    return [owner, *(member for members in inner for member in members)]
