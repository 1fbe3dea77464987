"""The page of one or two runs, written from their records."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..credit import CREDITS
from ..trainer.records import read_file, record_files
from .derived import settings_of
from .filters import FILTERS
from .page import FORMULAS, SHARDS, asset_files, folder_page, formulas_shard, single_page
from .rows import groups_of
from .shards import RunData, pairs, script_json

SINGLE_FILE_ROLLOUTS = 2_000
"""Most rollouts of a page that is a single file."""
SINGLE_FILE_CHARACTERS = 50_000_000
"""Most characters of their data."""


def write_page(folders: Sequence[Path], names: Sequence[str], output: Path) -> int:
    """Write the page of one run, or of two that are compared; return the number of their rollouts.

    Shards of an earlier page in the `output` folder are deleted. `names` are those of the runs.
    """
    for pattern in SHARDS:
        for path in (output / "data").glob(pattern):
            path.unlink()
    site = _Site(output)
    runs = [RunData(letter) for letter, _ in zip("ab", folders, strict=False)]
    settings: list[Mapping[str, Any]] = [{} for _ in folders]
    for number, (run, folder) in enumerate(zip(runs, folders, strict=True)):
        for _, path in record_files(folder):
            settings[number], records = read_file(path)
            for name, text in run.add(groups_of(records, settings[number])) if records else ():
                site.write(name, text, sum(len(run.keys) for run in runs))
    total = sum(len(run.keys) for run in runs)
    for run in runs:
        site.write(f"{run.letter}-list", script_json(run.list), total)
    if len(runs) == 2:
        site.write("pairs", script_json(pairs(*runs)), total)
    site.write(FORMULAS, formulas_shard(), total)
    site.finish(script_json(_index(names, runs, settings)))
    return total


class _Site:
    """The files of a page: one file with all data, or, if they are many, a folder of shards."""

    def __init__(self, output: Path):
        self.output = output
        self._kept: dict[str, str] = {}
        self._is_folder = False

    def write(self, name: str, text: str, rollouts: int) -> None:
        """Keep a shard in memory while the page may become a single file; later write it."""
        self._kept[name] = text
        size = sum(map(len, self._kept.values()))
        self._is_folder |= rollouts > SINGLE_FILE_ROLLOUTS or size > SINGLE_FILE_CHARACTERS
        while self._is_folder and self._kept:
            name, text = self._kept.popitem()
            _replace(self.output / "data" / f"{name}.js", f'barl.receive("{name}",{text});\n')

    def finish(self, index: str) -> None:
        """Write the page, with its index."""
        if not self._is_folder:
            page = single_page([*self._kept.items(), ("index", index)])
            _replace(self.output / "index.html", page)
            return
        for name, content in asset_files().items():
            path = self.output / "assets" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.write("index", index, 0)
        _replace(self.output / "index.html", folder_page())


def _index(
    names: Sequence[str], runs: Sequence[RunData], settings: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what the page needs before it loads any shard of groups."""
    return {
        "filters": [{"id": name, "label": a, "help": b} for name, (a, b) in FILTERS.items()],
        "likelihoods": {name: credit.answer_likelihood for name, credit in CREDITS.items()},
        "runs": [
            {
                "name": name,
                "letter": run.letter,
                "rollouts": len(run.keys),
                "bound": run.bound(),
                "model": metadata.get("model"),
                "reward_names": metadata.get("reward_names", []),
                # JSON lacks infinity
                "settings": {
                    setting: "inf" if value == math.inf else value
                    for setting, value in settings_of(metadata).items()
                },
            }
            for name, run, metadata in zip(names, runs, settings, strict=True)
        ],
    }


def _replace(path: Path, text: str) -> None:
    """Write a file that readers see whole, before or after. Its folder is made if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
