"""The output folder belongs to one run: it overwrites nothing of an earlier one, and is alone.

`barl train`, `demo`, `evaluate` and `reproduce paper` look here before anything is loaded, so it
needs neither TRL nor torch; a trainer claims its folder in `exact_resume.py`.
"""

import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ...report.inspector.page import page_files
from ..checks.environment import make_output_dir

_LOCK = "_lock"
"""Name of the lock file; what begins with `_` is not pushed to the Hub."""

_RESULTS = (
    *("model.safetensors", "model-*-of-*.safetensors", "pytorch_model*.bin"),
    *("adapter_model.safetensors", "adapter_model.bin", "trainer_state.json", "training_args.bin"),
)
"""What a run leaves when it is over."""

_RECORDS = ("beliefs/rollouts_*.parquet",)
"""What it leaves on its way, beside checkpoints."""

_COMPANIONS = (
    *("config.json", "generation_config.json", "adapter_config.json", "README.md"),
    *("model.safetensors.index.json", "pytorch_model.bin.index.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "vocab.txt", "merges.txt", "tokenizer.model", "chat_template.jinja"),
    "completions/completions_*.parquet",
)
"""What stands beside the results, and may as well be of a model that was put there, or of an
evaluation before the training."""

_CHECKPOINT = re.compile(r"checkpoint-\d+")


@contextmanager
def one_writer(folder: Path, *, is_shared: bool = False) -> Iterator[None]:
    """Keep other processes from writing into a folder meanwhile.

    Args:
        folder: It is there.
        is_shared: Whether this process may have it already, from another call with `is_shared`.

    Raises:
        ValueError: Another process does. A lock ends with its process.
    """
    path = folder / _LOCK
    try:
        held = FileLock(path, timeout=0, is_singleton=is_shared).acquire()
    except Timeout:
        writer = path.read_text(encoding="utf-8").strip() or "another process"
        raise ValueError(
            f"output_dir must have one writer, got {folder}, into which {writer} writes: wait for "
            "it, or choose another folder."
        ) from None
    with held as lock:
        if isinstance(lock, FileLock):  # where there is no flock it has a text of its own
            path.write_text(f"process {os.getpid()} on {platform.node()}", encoding="utf-8")
        yield


@contextmanager
def claimed(args: Any, resume: str | bool | None = None, *, is_own: bool = False) -> Iterator[None]:
    """Keep `output_dir` for this run, on all processes of a launch together.

    Args:
        args: The settings of the run.
        resume: The checkpoint that it goes on from; `auto`: there was none.
        is_own: Whether what is in the folder is this run's.

    Raises:
        ValueError: Another run has left something there, or is at it.
    """
    from accelerate.utils import gather_object  # only now: it imports torch

    folder, fault = Path(str(args.output_dir)), None
    with ExitStack() as held:
        if args.should_save:
            try:
                make_output_dir(str(folder))
                held.enter_context(one_writer(folder, is_shared=True))
                if not (is_own or args.overwrite_output_dir or _lies_in(folder, resume)):
                    refuse_used(folder, is_unfinished=str(resume).lower() == "auto")
            except ValueError as error:
                fault = str(error)
        for text in filter(None, gather_object([fault])):
            raise ValueError(text)
        yield


def clear_if_wanted(args: Any, resume: str | bool | None) -> None:
    """With `overwrite_output_dir`, delete what an earlier run left, and nothing else.

    Args:
        args: The settings of the run.
        resume: The checkpoint that it goes on from: if that is in the folder, the folder stays.
    """
    folder = Path(str(args.output_dir))
    if args.overwrite_output_dir and args.should_save and not _lies_in(folder, resume):
        _clear(folder)


def left_in(folder: Path, *, is_unfinished: bool = False) -> list[str]:
    """Name what an earlier run left in a folder, checkpoints first.

    Args:
        folder: It need not exist.
        is_unfinished: Leave out what a run leaves that came to no checkpoint.
    """
    results = _matching(folder, _RESULTS if is_unfinished else (*_RESULTS, *_RECORDS))
    checkpoints = [] if is_unfinished else _checkpoints(folder)
    return [str(path.relative_to(folder)) for path in (*checkpoints, *results)]


def refuse_used(folder: Path, *, is_unfinished: bool = False, is_resumable: bool = True) -> None:
    """Refuse a folder in which an earlier run left something.

    Args:
        folder: It need not exist.
        is_unfinished: Whether it may have what a run leaves that came to no checkpoint.
        is_resumable: Whether the command takes `--resume_from_checkpoint`.

    Raises:
        ValueError: It has other files of a run.
    """
    left = left_in(folder, is_unfinished=is_unfinished)
    if not left:
        return
    more = f" and {len(left) - 2} more" if len(left) > 2 else ""
    is_over = not _checkpoints(folder) and left_in(folder, is_unfinished=True)
    can_go_on = is_resumable and not is_unfinished and not is_over
    way_on = "go on with --resume_from_checkpoint auto, " if can_go_on else ""
    raise ValueError(
        f"output_dir must be new, got {folder} with {', '.join(left[:2])}{more} of an earlier run: "
        f"{way_on}name another folder, or delete them with --overwrite_output_dir true."
    )


def refuse_clearing(model: Any, args: Any) -> None:
    """Refuse to delete the model that is trained.

    Args:
        model: A path, a Hub id, or a model that knows where it is from.
        args: The settings of the run.

    Raises:
        ValueError: `overwrite_output_dir` would.
    """
    source = Path(model if isinstance(model, str | os.PathLike) else model.config._name_or_path)
    folder = Path(str(args.output_dir)).resolve()
    if args.overwrite_output_dir and source.is_dir() and source.resolve().is_relative_to(folder):
        raise ValueError(
            f"overwrite_output_dir must be False with a model in output_dir, got True and {source}:"
            " name another output_dir."
        )


def _clear(folder: Path) -> None:
    """Delete what a run writes. What others wrote stays, and so does what lies behind a link."""
    files = _matching(folder, (*_RESULTS, *_RECORDS, *_COMPANIONS))
    written = [*_checkpoints(folder), *files, *page_files(folder / "inspect")]
    written = [path for path in written if path.parent.resolve().is_relative_to(folder.resolve())]
    for path in written:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    for parent in sorted({path.parent for path in written} - {folder}, reverse=True):
        if not any(parent.iterdir()):
            parent.rmdir()


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("checkpoint-*") if _CHECKPOINT.fullmatch(p.name))


def _matching(folder: Path, patterns: Iterable[str]) -> list[Path]:
    return [path for pattern in patterns for path in sorted(folder.glob(pattern))]


def _lies_in(folder: Path, resume: str | bool | None) -> bool:
    """Whether a run goes on from a checkpoint of this very folder."""
    checkpoint = Path(str(resume))
    return checkpoint.is_dir() and checkpoint.resolve().parent == folder.resolve()
