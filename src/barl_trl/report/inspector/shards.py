"""The shards of a page: JSON that is safe inside a script, in files of limited size."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from .rows import COLUMNS, Group

SHARD_CHARACTERS = 300_000
"""Number of characters at which a shard of groups ends. It is parsed in some milliseconds."""
LINES_PER_LIST = 10_000
"""Number of rollouts at which a shard of the list ends."""


def script_json(value: Any) -> str:
    r"""Return JSON in ASCII without `<`, so that no text in it can end a script or begin a tag.

    >>> print(script_json("</script>\u2028"))
    "\u003c/script>\u2028"
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


class RunData:
    """The shards of a run, to which files of records are added.

    Args:
        letter: First letter of the names of the run's shards.

    Attributes:
        rollouts: Number of rollouts that were added.
        keys: Prompt id of each rollout, and a hash of its prompt id and completion.
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
        """Add the groups of a file. Yield name and JSON of each shard that is to be written."""
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
        """Yield name and JSON of the shard of the list that is not full yet, if there is one."""
        if self._list["group"]:
            yield self._list_name(self._lists), script_json(self._list)

    def bound(self) -> float:
        """Return the magnitude at which the colours of weights saturate, one for the whole run."""
        magnitudes = np.concatenate([np.zeros(1), *self._magnitudes])
        return float(f"{np.quantile(magnitudes, 0.995):.2g}") or 1.0

    def lists(self) -> list[str]:
        """Return the names of the shards of the list."""
        has_open = bool(self._list["group"])
        return [self._list_name(n) for n in range(self._lists + has_open)]

    def _take(self, group: Group) -> None:
        """Add a group to the list, the magnitudes and the counts."""
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
        """Return name and JSON of the full shard of the list, and begin the next."""
        closed = self._list_name(self._lists), script_json(self._list)
        self._lists += 1
        self._list = {name: [] for name in self._list}
        return closed

    def _name(self, number: int) -> str:
        return f"{self.letter}-{number:05d}"

    def _list_name(self, number: int) -> str:
        return f"{self.letter}-list-{number:03d}"


def pairs(ours: RunData, theirs: RunData) -> dict[str, list]:
    """Pair the rollouts of two runs: first equal completions, then others to the same prompt.

    Args:
        ours: The run whose rollouts the page lists.
        theirs: The run that it is compared with.

    Returns:
        For each of our rollouts, `other` has the number of its partner, or -1, and `same` is 1 if
        the completions are equal, else 0.
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
