"""The page of one or two runs, written from their records and updated while a run goes on."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...credit import CREDITS
from ..rollout_records import read_file, record_files
from .filters import FILTERS
from .page import FORMULAS, SHARDS, asset_files, folder_page, formulas_shard, single_page
from .rows import groups_of
from .shards import RunData, pairs, script_json

SINGLE_FILE_ROLLOUTS = 2_000
"""Most rollouts of a page that is a single file."""
SINGLE_FILE_CHARACTERS = 50_000_000
"""Most characters of their data."""


class Site:
    """The page of a run, or of two runs that are compared.

    Args:
        folders: One or two folders of records.
        names: Names of the runs that the page shows.
        output: Folder of the page.
        is_live: Whether the run goes on. The page then looks for news, and is never a single file.
    """

    def __init__(
        self, folders: Sequence[Path], names: Sequence[str], output: Path, *, is_live: bool = False
    ):
        self.folders, self.names, self.output, self.is_live = folders, names, output, is_live
        self.runs: list[RunData] = []
        self._metadata: list[dict[str, Any]] = []
        self._seen: dict[tuple[int, Path], int] = {}
        self._begun = 0
        self._kept: dict[str, str] | None = None

    def update(self) -> int:
        """Take in new files of records and write the page; return the number of new files.

        The first time, and if a file was replaced because a run went on from a checkpoint,
        everything is made anew.
        """
        times = {
            (number, path): path.stat().st_mtime_ns
            for number, folder in enumerate(self.folders)
            for _, path in record_files(folder)
        }
        if not self.runs or any(times.get(place) != time for place, time in self._seen.items()):
            self._begin()
        new = 0
        for place, time in times.items():
            if place not in self._seen:
                self._seen[place] = time
                self._add(*place)
                new += 1
        if new:
            self._finish()
        return new

    @property
    def rollouts(self) -> int:
        """Number of rollouts of all runs."""
        return sum(run.rollouts for run in self.runs)

    def _add(self, number: int, path: Path) -> None:
        """Read a file of records of run `number`, and keep or write its shards."""
        self._metadata[number], records = read_file(path)
        if not records:
            return
        for name, text in self.runs[number].add(groups_of(records, self._metadata[number])):
            self._write(name, text)

    def _begin(self) -> None:
        """Forget all runs, and delete the shards that were written."""
        self.runs = [RunData(letter) for letter, _ in zip("ab", self.folders, strict=False)]
        self._metadata = [{} for _ in self.folders]
        self._seen = {}
        self._begun += 1
        self._kept = None if self.is_live else {}
        for pattern in SHARDS:
            for path in (self.output / "data").glob(pattern):
                path.unlink()

    def _write(self, name: str, text: str) -> None:
        """Keep a shard in memory while the page may become a single file; later write it."""
        if self._kept is None:
            _replace(self.output / "data" / f"{name}.js", f'barl.receive("{name}",{text});\n')
            return
        self._kept[name] = text
        size = sum(map(len, self._kept.values()))
        if self.rollouts > SINGLE_FILE_ROLLOUTS or size > SINGLE_FILE_CHARACTERS:
            kept, self._kept = self._kept, None
            for shard in kept.items():
                self._write(*shard)

    def _finish(self) -> None:
        """Write the shards that close the page, and the page itself."""
        for run in self.runs:
            self._write(f"{run.letter}-list", script_json(run.list))
        if len(self.runs) == 2:
            self._write("pairs", script_json(pairs(*self.runs)))
        self._write(FORMULAS, formulas_shard())
        index = script_json(self._index())
        if self._kept is not None:
            page = single_page([*self._kept.items(), ("index", index)])
            _replace(self.output / "index.html", page)
            return
        for name, content in asset_files().items():
            path = self.output / "assets" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self._write("index", index)
        _replace(self.output / "index.html", folder_page())

    def _index(self) -> dict[str, Any]:
        """Return what the page needs before it loads any shard of groups."""
        return {
            "live": self.is_live,
            "begun": self._begun,
            "filters": [{"id": name, "label": a, "help": b} for name, (a, b) in FILTERS.items()],
            "likelihoods": {name: credit.answer_likelihood for name, credit in CREDITS.items()},
            "runs": [
                {
                    "name": name,
                    "letter": run.letter,
                    "rollouts": run.rollouts,
                    "bound": run.bound(),
                    "model": metadata.get("model"),
                    "settings": _json_values(metadata.get("settings", {})),
                }
                for name, run, metadata in zip(self.names, self.runs, self._metadata, strict=True)
            ],
        }


def _json_values(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in which infinity, which JSON lacks, is a text."""
    settings = {**settings, **(settings.get("credit_options") or {})}
    return {name: "inf" if value == math.inf else value for name, value in settings.items()}


def _replace(path: Path, text: str) -> None:
    """Write a file that readers see whole, before or after. Its folder is made if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
