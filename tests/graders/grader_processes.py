"""The processes that compare, as the operating system sees them."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


class GraderProcess(NamedTuple):
    """What stays the same when its parent ends."""

    started: int
    pid: int


def _stat(folder: Path) -> list[str]:
    """What stands behind the name of the process."""
    return (folder / "stat").read_text().rpartition(")")[2].split()


def grader_processes(parent: int | None = None, mark: str = "") -> list[GraderProcess]:
    """Those that are alive, the oldest first; of one parent, with a mark in their environment."""
    if sys.platform != "linux":
        pytest.skip("looks into /proc")
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"graders.worker" not in (folder / "cmdline").read_bytes():  # empty for a zombie
                continue
            fields = _stat(folder)
            environment = (folder / "environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent in (None, int(fields[1])) and mark.encode() in environment:
            found.append(GraderProcess(int(fields[19]), int(folder.name)))
    return sorted(found)


def cpu_seconds(pid: int) -> float:
    """CPU time that a living process has used."""
    if sys.platform != "linux":
        pytest.skip("looks into /proc")
    user, system = _stat(Path("/proc") / str(pid))[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def eventually(condition: Callable[[], bool], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
