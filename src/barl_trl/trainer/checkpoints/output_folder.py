"""The output folder belongs to one run, which overwrites nothing of an earlier run.

`barl train`, `demo`, `evaluate` and `reproduce paper` check the folder before they load anything,
so this module imports neither TRL nor torch. Trainers claim their folder in `exact_resume.py`.
"""

import errno
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ...report.inspector.page import page_files

_LOCK = "_lock"
"""Name of the lock file. Files whose names begin with `_` are not pushed to the Hub."""

_RESULTS = (
    *("model.safetensors", "model-*-of-*.safetensors", "pytorch_model*.bin"),
    *("adapter_model.safetensors", "adapter_model.bin", "trainer_state.json", "training_args.bin"),
)
"""Patterns of the files that a run writes when it ends."""

_RECORDS = ("beliefs/rollouts_*.parquet",)
"""Patterns of the files, beside checkpoints, that a run writes while it trains."""

_COMPANIONS = (
    *("config.json", "generation_config.json", "adapter_config.json", "README.md"),
    *("model.safetensors.index.json", "pytorch_model.bin.index.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "vocab.txt", "merges.txt", "tokenizer.model", "chat_template.jinja"),
    "completions/completions_*.parquet",
)
"""Patterns of the files that a run writes beside its results. They alone do not show that a run was
here: a user may have put a model into the folder, or evaluated before training."""

_CHECKPOINT = re.compile(r"checkpoint-\d+")


@contextmanager
def one_writer(folder: Path, *, is_shared: bool = False) -> Iterator[Callable[[], bool]]:
    """Keep other processes from writing into a folder inside this context.

    A lock ends with its process, even if that is killed. It is lost if the folder is deleted:
    another process can then make a folder of that name, and hold it. The context gives a function
    that returns whether the folder is still held.

    Args:
        folder: An existing folder.
        is_shared: Whether this process may hold the lock already, from another call with
            `is_shared`.

    Raises:
        ValueError: Another process writes into the folder.
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
        if isinstance(lock, FileLock):  # without flock, filelock writes its own text into the file
            path.write_text(f"process {os.getpid()} on {platform.node()}", encoding="utf-8")
        status = path.stat()
        yield lambda: path.exists() and os.path.samestat(path.stat(), status)


@contextmanager
def claimed(
    args: Any, resume: str | bool | None = None, *, is_own: bool = False
) -> Iterator[Callable[[], bool]]:
    """Keep `output_dir` for this run inside this context, on all processes of a launch together.

    The context gives a function that returns whether this process still holds what it has to.

    Args:
        args: The settings of the run.
        resume: The checkpoint that the run resumes from. `auto` means that there was none.
        is_own: Whether the files in the folder are this run's.

    Raises:
        ValueError: The folder cannot be made, or another run has left something in it, or writes
            into it.
    """
    from accelerate.utils import gather_object  # imported late: it imports torch

    folder, fault, is_held = Path(str(args.output_dir)), None, lambda: True
    with ExitStack() as held:
        if args.should_save:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                is_held = held.enter_context(one_writer(folder, is_shared=True))
                if not (is_own or args.overwrite_output_dir or _lies_in(folder, resume)):
                    refuse_used(folder, is_unfinished=str(resume).lower() == "auto")
            except OSError as error:
                fault = str(_unmakeable(folder, error.errno))
            except ValueError as error:
                fault = str(error)
        for text in filter(None, gather_object([fault])):
            raise ValueError(text)
        yield is_held


def clear_if_wanted(args: Any, resume: str | bool | None) -> None:
    """Delete what an earlier run left in `output_dir`, if `overwrite_output_dir` is set.

    Args:
        args: The settings of the run.
        resume: The checkpoint that the run resumes from. If it is in `output_dir`, nothing is
            deleted.
    """
    folder = Path(str(args.output_dir))
    if args.overwrite_output_dir and args.should_save and not _lies_in(folder, resume):
        _clear(folder)


def left_in(folder: Path, *, is_unfinished: bool = False) -> list[str]:
    """Return the names of the files that an earlier run left in a folder, checkpoints first.

    Args:
        folder: A folder, which need not exist.
        is_unfinished: Whether to leave out checkpoints and the records of rollouts, which a run
            writes before it ends.
    """
    results = _matching(folder, _RESULTS if is_unfinished else (*_RESULTS, *_RECORDS))
    checkpoints = [] if is_unfinished else _checkpoints(folder)
    return [str(path.relative_to(folder)) for path in (*checkpoints, *results)]


def refuse_used(folder: Path, *, is_unfinished: bool = False, is_resumable: bool = True) -> None:
    """Refuse a folder in which an earlier run left something.

    Args:
        folder: A folder, which need not exist.
        is_unfinished: Whether it may have the files that a run writes before it ends.
        is_resumable: Whether the command takes `--resume_from_checkpoint`.

    Raises:
        ValueError: The folder has files of an earlier run.
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


def refuse_no_checkpoint(value: str | bool | None, folder: Path) -> None:
    """Refuse a `resume_from_checkpoint` that leads to no folder; what is in it is checked later.

    Args:
        value: A path, `true`, `auto` or `false`, which may be texts, or None.
        folder: The `output_dir` of the run.

    Raises:
        ValueError: There is no such folder, or no checkpoint in `output_dir` with `true`.
    """
    choice = str(value or False).lower()
    if choice == "true" and not _checkpoints(folder):
        raise none_complete(folder, [])
    if choice not in ("true", "auto", "false") and not Path(str(value)).is_dir():
        raise incomplete(str(value), "there is no such folder")


def none_complete(folder: Path | str, faults: list[str]) -> ValueError:
    """Return the error for a folder without a complete checkpoint, with the faults of others."""
    reasons = f" ({'; '.join(faults)})" if faults else ""
    return ValueError(
        "resume_from_checkpoint must find a complete checkpoint, got none in "
        f"{folder}{reasons}: leave it out to start anew, as `auto` does then."
    )


def incomplete(checkpoint: str, fault: str) -> ValueError:
    """Return the error for a checkpoint with a fault."""
    return ValueError(
        f"resume_from_checkpoint must be complete, got {checkpoint}: {fault}. `true` takes the "
        f"last complete one; --model_name_or_path {checkpoint} starts anew with its weights."
    )


def refuse_unmakeable(folder: Path, name: str = "output_dir") -> None:
    """Refuse a folder that cannot be made, or that cannot be written into; nothing is made.

    Args:
        folder: The folder.
        name: The setting, for the error message.

    Raises:
        ValueError: The folder, or the nearest one above it, is a file or may not be written.
    """
    nearest = folder.absolute()
    while not os.path.lexists(nearest):
        nearest = nearest.parent
    if not nearest.is_dir():
        raise _unmakeable(folder, errno.ENOTDIR, name)
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise _unmakeable(folder, errno.EACCES, name)


def _unmakeable(folder: Path, number: int | None, name: str = "output_dir") -> ValueError:
    why = os.strerror(number or errno.EIO)
    return ValueError(
        f"{name} must be a folder that can be made, got {str(folder)!r} ({why}): name another."
    )


def refuse_clearing(model: Any, args: Any) -> None:
    """Refuse to delete the model that is trained.

    Args:
        model: A path, a Hub id, or a model whose configuration says where it was loaded from.
        args: The settings of the run.

    Raises:
        ValueError: `overwrite_output_dir` would delete the model.
    """
    source = Path(model if isinstance(model, str | os.PathLike) else model.config._name_or_path)
    folder = Path(str(args.output_dir)).resolve()
    if args.overwrite_output_dir and source.is_dir() and source.resolve().is_relative_to(folder):
        raise ValueError(
            f"overwrite_output_dir must be False with a model in output_dir, got True and {source}:"
            " name another output_dir."
        )


def _clear(folder: Path) -> None:
    """Delete the files that a run writes; other files, and files behind a link, stay."""
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
    """Return whether a run resumes from a checkpoint in this folder."""
    checkpoint = Path(str(resume))
    return checkpoint.is_dir() and checkpoint.resolve().parent == folder.resolve()
