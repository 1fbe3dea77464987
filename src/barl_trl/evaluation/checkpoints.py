"""Which weights stand behind a model's name."""

import zlib
from pathlib import Path

from transformers.utils import cached_file
from transformers.utils.hub import extract_commit_hash

END = 2**24
"""Bytes at the end of each file of weights that are looked at."""


def checkpoint_id(model: str) -> str | None:
    """What tells a checkpoint from others of the same name.

    Args:
        model: Hub id, or local folder, of a model or an adapter.

    Returns:
        The commit on the Hub, or, of a local folder, a checksum of the ends of its weights' files.
    """
    folder = Path(model)
    if not folder.is_dir():
        return extract_commit_hash(cached_file(model, "tokenizer_config.json"), None)
    checksum = 0
    for file in sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")]):
        with file.open("rb") as weights:
            weights.seek(max(0, file.stat().st_size - END))
            checksum = zlib.crc32(weights.read(), checksum)
    return f"{checksum:08x}"
