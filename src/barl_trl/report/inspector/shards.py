"""JSON that is safe inside a script, and its distribution over shards."""

import json
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from .rows import COLUMNS, Group

SHARD_CHARACTERS = 300_000
"""A shard of groups ends when it has so many: it is parsed in some milliseconds."""
LINES_PER_LIST = 10_000


def script_json(value: Any) -> str:
    r"""Return JSON in ASCII without `<`: no text in it can end a script or begin a tag.

    A number that JSON lacks becomes a text.

    >>> print(script_json("</script>\u2028"), script_json({"beta": float("inf")}))
    "\u003c/script>\u2028" {"beta":"inf"}
    """
    dumps = partial(json.dumps, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    try:
        text = dumps(value)
    except ValueError:  # it is rare, so that the common case is not slowed down
        text = dumps(_named(value))
    return text.replace("<", "\\u003c")


def _named(value: Any) -> Any:
    """Return a value of JSON with infinities and NaN as texts."""
    if isinstance(value, dict):
        return {name: _named(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [*map(_named, value)]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


class RunData:
    """A run's shards, which grow by files of records.

    Args:
        letter: First letter of the names of its shards.
    """

    def __init__(self, letter: str):
        self.letter = letter
        self.rollouts = 0
        self.keys: list[tuple[str, int]] = []
        self._magnitudes: list[np.ndarray] = []
        self._shards = self._groups = 0
        self._list: dict[str, Any] = {"heads": [], **{name: [] for name in COLUMNS}}
        self._lists = 0

    def add(self, groups: list[Group]) -> Iterator[tuple[str, str]]:
        """Take the groups of a file; yield names and JSON of the shards to write."""
        pending: list[str] = []
        size = 0
        for n, group in enumerate(groups):
            if not pending:
                self._shards += 1
                first = self._groups
            self._take(group)
            pending.append(script_json(group.details))
            size += len(pending[-1])
            if size >= SHARD_CHARACTERS or n == len(groups) - 1:
                yield (
                    self._name(self._shards),
                    f'{{"first":{first},"groups":[{",".join(pending)}]}}',
                )
                pending, size = [], 0
            if len(self._list["group"]) >= LINES_PER_LIST:
                yield self._close_list()

    def open_list(self) -> Iterator[tuple[str, str]]:
        """Yield the shard of the list that is not full yet, if there is one."""
        if self._list["group"]:
            yield self._list_name(self._lists), script_json(self._list)

    def bound(self) -> float:
        """Return the magnitude at which the scale of weights saturates, the same for the run."""
        found = np.concatenate([np.zeros(1), *self._magnitudes])
        return float(f"{np.quantile(found, 0.995):.2g}") or 1.0

    def lists(self) -> list[str]:
        """Return the names of the list's shards."""
        has_open = bool(self._list["group"])
        return [self._list_name(n) for n in range(self._lists + has_open)]

    def _take(self, group: Group) -> None:
        self._list["heads"].append([*group.head, self._name(self._shards)])
        for line in group.lines:
            for name, value in zip(COLUMNS, (self._groups, *line), strict=True):
                self._list[name].append(value)
        rollouts = group.details["rollouts"]
        shown = [*(x for r in rollouts for x in (*r["weights"], r["advantage"])), 0.0]
        self._magnitudes.append(np.abs(np.array([x or 0.0 for x in shown], dtype=np.float32)))
        self._groups += 1
        self.rollouts += len(group.lines)
        self.keys += group.keys

    def _close_list(self) -> tuple[str, str]:
        closed = self._list_name(self._lists), script_json(self._list)
        self._lists += 1
        self._list = {name: [] for name in self._list}
        return closed

    def _name(self, number: int) -> str:
        return f"{self.letter}-{number:05d}"

    def _list_name(self, number: int) -> str:
        return f"{self.letter}-list-{number:03d}"


def pairs(ours: RunData, theirs: RunData) -> dict[str, list]:
    """Join the rollouts of two runs: equal completions first, then those to the same prompt.

    Args:
        ours: The run whose rollouts are listed.
        theirs: The run to compare with.

    Returns:
        `other`: for each of ours the number of its partner, or -1; `same`: whether the completions
        are equal.
    """
    other, same, taken = [-1] * ours.rollouts, [0] * ours.rollouts, set()
    for part in (slice(None), slice(0, 1)):
        waiting: dict[tuple, list[int]] = {}
        for row in reversed(range(theirs.rollouts)):
            if row not in taken:
                waiting.setdefault(theirs.keys[row][part], []).append(row)
        for row, key in enumerate(ours.keys):
            if other[row] < 0 and waiting.get(key[part]):
                other[row] = waiting[key[part]].pop()
                same[row] = int(part.stop is None)
                taken.add(other[row])
    return {"other": other, "same": same}
