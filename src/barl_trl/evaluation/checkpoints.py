"""Which weights stand behind a model's name, and which code trained them."""

import os
import subprocess
import zlib
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from transformers.utils import cached_file
from transformers.utils.hub import extract_commit_hash

from ..report.json_files import regular
from ..trainer.hub import redacted
from .generation.templates import PROMPT

TRAINED_BY = "barl_trained_by"
"""Key of `tokenizer_config.json` under which training notes the version of its code."""

_END = 2**24
"""Number of bytes at the end of each file of weights that enter the checksum."""


def checkpoint_id(
    model: str, revision: str | None = None, *, token: str | bool | None = None
) -> str | None:
    """Return what tells a checkpoint from others of the same name.

    Args:
        model: Hub id, or local folder, of a model or an adapter.
        revision: Branch, tag or commit on the Hub. None: the default branch.
        token: Token of the Hub. None: that of its login.

    Returns:
        The commit on the Hub. For a local folder, a checksum of the last 16 MiB of each file of
        weights, as 8 hex digits.
    """
    folder = Path(model)
    if not folder.is_dir():
        file = cached_file(model, "tokenizer_config.json", revision=revision, token=token)
        return extract_commit_hash(file, None)
    checksum = 0
    for path in sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")]):
        with regular(path).open("rb") as weights:
            weights.seek(max(0, path.stat().st_size - _END))
            checksum = zlib.crc32(weights.read(), checksum)
    return f"{checksum:08x}"


def record_training(
    tokenizer: Any,
    *,
    system_prompt: str | None,
    prompt_template: str | None,
    chat_template_kwargs: Mapping[str, Any] | None,
) -> None:
    """Note in a tokenizer how a model was trained; the notes are saved with the tokenizer.

    They say how training wrote prompts, without secrets, and by which code it ran: this package's
    version, and the commit of the git repository in which `barl train` runs.
    """
    tokenizer.init_kwargs[PROMPT] = {
        "system_prompt": None if prompt_template else system_prompt,
        "prompt_template": prompt_template,
        "chat_template_kwargs": redacted(chat_template_kwargs or {}),
    }
    tokenizer.init_kwargs[TRAINED_BY] = {"barl-trl": version("barl-trl"), "commit": _git_commit()}


def _git_commit() -> str | None:
    """Return the commit of the working directory's repository; None outside of a repository.

    It ends with `-dirty` if files differ from it. The repository may be a stranger's. No program
    that it names is run: no `core.fsmonitor`, hook, filter or transport for missing objects, and
    none of its submodules' programs.
    """
    try:
        filters = _git("config", "--show-scope", "--name-only", "--get-regexp", r"^filter\.").stdout
        scoped = (line.split("\t", 1) for line in filters.splitlines())
        keys = [key for scope, key in scoped if scope in ("local", "worktree")]
        commit = _git("rev-parse", "--verify", "--quiet", "HEAD").stdout.strip()
        differ = ("diff", "--quiet", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")
        is_dirty = _git(*differ, "HEAD", emptied=keys).returncode
    except OSError:  # there is no git
        return None
    return f"{commit}-dirty" if commit and is_dirty else commit or None


def _git(*command: str, emptied: Iterable[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run git without the programs that a repository's settings name; those `emptied` are none."""
    settings = ["-c", "core.fsmonitor=", "-c", f"core.hooksPath={os.devnull}"]
    settings += [f"--config-env={key}=BARL_NOTHING" for key in emptied]  # a key may have a "="
    return subprocess.run(
        ["git", *settings, *command],
        env=os.environ | {"GIT_ALLOW_PROTOCOL": "none", "BARL_NOTHING": ""},
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
