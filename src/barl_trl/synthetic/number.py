"""The example's task for agents: find a secret number from 1 to 16 with few questions.

`examples/agents.py` has the game, an environment with the tool `at_least`. The model in
`NUMBER_MODEL_DIR` knows how to call it and what the answers rule out, but it asks and stops at
random; `scripts/make_number_model.py` makes it and says how.
"""

import random
from pathlib import Path
from typing import Any

NUMBER_MODEL_DIR = Path(__file__).parents[1] / "assets" / "tiny-number"
"""Folder of the shipped model and tokenizer, for `from_pretrained`."""

NUMBER_COUNT = 16
"""The secret is one of the numbers from 1 to this one."""

QUESTION = f"Which number from 1 to {NUMBER_COUNT} is it?"
"""The message of every prompt."""


def number_rows(count: int, *, seed: int) -> list[dict[str, Any]]:
    """Return data set rows `{"prompt", "solution"}`: the same message, with random secrets.

    Args:
        count: Number of rows.
        seed: Seed of the secrets.
    """
    rng = random.Random(seed)
    secrets = [rng.randint(1, NUMBER_COUNT) for _ in range(count)]
    return [
        {"prompt": [{"role": "user", "content": QUESTION}], "solution": str(secret)}
        for secret in secrets
    ]
