"""Which weights stand behind a model's name."""

import zlib
from pathlib import Path

from transformers.utils import cached_file
from transformers.utils.hub import extract_commit_hash

END = 2**24
"""Bytes at the end of each file of weights that are looked at."""


def checkpoint_id(model: str, revision: str | None = None) -> str | None:
    """Tell a checkpoint from others of the same name.

    Args:
        model: Hub id, or local folder, of a model or an adapter.
        revision: Branch, tag or commit on the Hub; `None`: the default branch.

    Returns:
        The commit on the Hub, or, of a local folder, a checksum of the ends of its weights' files.
    """
    folder = Path(model)
    if not folder.is_dir():
        file = cached_file(model, "tokenizer_config.json", revision=revision)
        return extract_commit_hash(file, None)
    checksum = 0
    for path in sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")]):
        with path.open("rb") as weights:
            weights.seek(max(0, path.stat().st_size - END))
            checksum = zlib.crc32(weights.read(), checksum)
    return f"{checksum:08x}"
