"""The shards of a page: JSON that is safe inside a script, in files of limited size."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from .rows import COLUMNS, Group

SHARD_CHARACTERS = 300_000
"""Number of characters at which a shard of groups ends. It is parsed in some milliseconds."""


def script_json(value: Any) -> str:
    r"""Return JSON in ASCII without `<`, so that no text in it can end a script or begin a tag.

    >>> print(script_json("</script>\u2028"))
    "\u003c/script>\u2028"
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


class RunData:
    """The shards of a run, whose names begin with a letter. Files of records are added to them.

    Attributes:
        keys: Prompt id of each rollout, and a hash of its prompt id and completion.
        list: The list of all rollouts: `heads` of the groups, and the columns of the rollouts.
    """

    def __init__(self, letter: str):
        self.letter = letter
        self.keys: list[tuple[str, int]] = []
        self.list: dict[str, list[Any]] = {"heads": [], **{name: [] for name in COLUMNS}}
        self._magnitudes: list[np.ndarray] = []
        self._shards = 0

    def add(self, groups: list[Group]) -> Iterator[tuple[str, str]]:
        """Add the groups of a file. Yield name and JSON of each shard that is to be written."""
        pending: list[str] = []
        for n, group in enumerate(groups):
            if not pending:
                self._shards += 1
                name, first = f"{self.letter}-{self._shards:05d}", len(self.list["heads"])
            self._take(group, name)
            pending.append(script_json(group.details))
            if sum(map(len, pending)) >= SHARD_CHARACTERS or n == len(groups) - 1:
                yield name, f'{{"first":{first},"groups":[{",".join(pending)}]}}'
                pending = []

    def bound(self) -> float:
        """Return the magnitude at which the colours of weights saturate, one for the whole run."""
        magnitudes = np.concatenate([np.zeros(1), *self._magnitudes])
        return float(f"{np.quantile(magnitudes, 0.995):.2g}") or 1.0

    def _take(self, group: Group, shard: str) -> None:
        """Add a group to the list, the magnitudes and the counts."""
        number = len(self.list["heads"])
        self.list["heads"].append([*group.head, shard])
        for line in group.lines:
            for name, value in zip(COLUMNS, (number, *line), strict=True):
                self.list[name].append(value)
        rollouts = group.details["rollouts"]
        shown = [*(x for r in rollouts for x in (*r["weights"], r["advantage"])), 0.0]
        self._magnitudes.append(np.abs(np.array([x or 0.0 for x in shown], dtype=np.float32)))
        self.keys += group.keys


def pairs(ours: RunData, theirs: RunData) -> dict[str, list]:
    """Pair the rollouts of two runs: first equal completions, then others to the same prompt.

    For each of our rollouts, `other` has the number of its partner, or -1, and `same` is 1 if the
    completions are equal, else 0.
    """
    other, same, taken = [-1] * len(ours.keys), [0] * len(ours.keys), set()
    for part in (slice(None), slice(0, 1)):
        waiting: dict[tuple, list[int]] = {}
        for row in reversed(range(len(theirs.keys))):
            if row not in taken:
                waiting.setdefault(theirs.keys[row][part], []).append(row)
        for row, key in enumerate(ours.keys):
            if other[row] < 0 and waiting.get(key[part]):
                other[row] = waiting[key[part]].pop()
                same[row] = int(part.stop is None)
                taken.add(other[row])
    return {"other": other, "same": same}
