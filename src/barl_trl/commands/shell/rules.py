"""The rules of a command's settings, one row for each rule."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Rule(NamedTuple):
    """A rule that a setting must keep. A setting of None breaks no rule.

    `must` and `way_out` are format strings: `{s.FIELD}` is the value of a setting, `{value!r}` is
    the value of `field`, and `{default}` is its default.
    """

    field: str
    """The name of the setting."""
    holds: Callable[[Any], Any]
    """All settings -> whether the rule holds."""
    must: str
    """What the setting must be; it follows the word "must" in the error message."""
    way_out: str
    """What to set instead; it ends the error message."""


def refuse_broken(rules: Iterable[Rule], settings: Any) -> None:
    """Refuse settings that break a rule.

    Args:
        rules: The rules, in the order in which they are checked.
        settings: An object with the settings; its class has their defaults.

    Raises:
        ValueError: A rule is broken. The message tells the first broken rule.
    """
    for rule in rules:
        value = getattr(settings, rule.field)
        if value is not None and not rule.holds(settings):
            default = getattr(type(settings), rule.field, None)
            text = f"{rule.field} must {rule.must}, got {{value!r}}: {rule.way_out}."
            raise ValueError(text.format(s=settings, value=value, default=default))
