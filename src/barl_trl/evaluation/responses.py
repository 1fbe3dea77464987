"""Response files of `barl evaluate`: a folder per model and way of sampling, in it a JSON line per
response in `<benchmark>.jsonl`.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

Responses = list[dict[str, Any]]
"""Responses to one problem, in the order of their `sample`."""

Problems = Mapping[int, Responses]
"""Responses by `problem_id`."""


def read_responses(
    folder: str | Path, benchmarks: Collection[str] | None = None
) -> dict[str, Problems]:
    """Reads a folder of response files.

    Args:
        folder: Where `barl evaluate` wrote to.
        benchmarks: Which to read, in this order. `None`: all.

    Returns:
        The problems of each benchmark.

    Raises:
        ValueError: A file is missing, or a line in it is no response.
    """
    found = {path.stem: path for path in sorted(Path(folder).glob("*.jsonl"), key=lambda p: p.stem)}
    if not found:
        raise ValueError(
            f"a folder of responses must hold <benchmark>.jsonl, got none in {folder}: write them "
            "with `barl evaluate`."
        )
    missing = [name for name in benchmarks or () if name not in found]
    if missing:
        raise ValueError(
            f"benchmarks must be among those in {folder} ({', '.join(found)}), got {missing[0]}."
        )
    return {name: _read(found[name]) for name in benchmarks or found}


def _read(path: Path) -> Problems:
    problems = defaultdict(list)
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                response = json.loads(line)
                problems[response["problem_id"]].append(response)
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"a response file must hold one response per line, got {line[:40]!r} in "
                    f"{path}, line {number}: if its run was killed, run it again, it goes on there."
                ) from error
    if not problems:
        raise ValueError(f"a response file must hold responses, got none in {path}.")
    return {
        problem_id: sorted(problems[problem_id], key=lambda response: response["sample"])
        for problem_id in sorted(problems)
    }
