"""Where things lie in the repository."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]


def read_jsonl(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
