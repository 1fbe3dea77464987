"""What a user's mistakes at `barl` cost: CPU seconds from the command to its one line.

`python benchmarks/mistakes.py [--json FILE]` starts each command of `tests/cases/mistakes.yaml` in
a process of its own, among the files that are listed there, and prints a table. `--together FOLDER`
makes those files, runs the commands that need no torch in one process where torch cannot be
imported, and prints what each wrote as JSON; `tests/commands/test_careless.py` reads it.
"""

import argparse
import contextlib
import io
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from barl_trl import cli

CASES = Path(__file__).parents[1] / "tests" / "cases" / "mistakes.yaml"
MODEL = Path(cli.__file__).parent / "assets" / "tiny-search"
LISTS = {"mistakes": "without torch", "torch": "with torch or TRL"}


def prepare(folder: Path, cases: dict[str, Any]) -> None:
    """Write the files of a careless user."""
    for name, text in cases["files"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("MODEL", str(MODEL)), encoding="utf-8")


def words(run: str) -> list[str]:
    """Return the arguments of a command, without `barl`."""
    return [word.replace("MODEL", str(MODEL)) for word in shlex.split(run)]


def together(cases: dict[str, Any], folder: Path) -> None:
    """Run the commands that need no torch in this process, and print what they wrote."""
    os.chdir(folder)
    sys.modules["torch"] = sys.modules["trl.trainer"] = None  # type: ignore[assignment]
    records = []
    for case in cases["mistakes"]:
        out, err, status = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                cli.main(words(case["run"]))
            except SystemExit as end:
                status = end.code
            except Exception as error:
                status = repr(error)
        shown = {"status": status, "out": out.getvalue(), "err": err.getvalue()}
        records.append({"run": case["run"], **shown})
    print(json.dumps(records))


def measure(run: str, folder: Path) -> dict[str, Any]:
    """Return exit status, standard error and CPU seconds of a command in its own process."""
    command = [sys.executable, "-P", "-m", "barl_trl.cli", *words(run)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=err
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        err.seek(0)
        lines = err.read().decode().splitlines()
    seconds = usage.ru_utime + usage.ru_stime
    return {"run": run, "status": process.returncode, "lines": lines, "cpu_seconds": seconds}


def main() -> None:
    """Measure and print, or run together."""
    parser = argparse.ArgumentParser(description="What a user's mistakes cost.")
    parser.add_argument("--together", type=Path, metavar="FOLDER")
    parser.add_argument("--quick", action="store_true", help="one mistake of each list")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cases = yaml.safe_load(CASES.read_text(encoding="utf-8"))
    if options.together:
        prepare(options.together, cases)
        together(cases, options.together)
        return
    records: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), cases)
        for name in LISTS:
            runs = [case["run"] for case in cases[name]][: 1 if options.quick else None]
            records[name] = [measure(run, Path(folder)) for run in runs]
    print("| | mistakes | status 2, one line | CPU s: least | median | most | the dearest |")
    print("|---|---|---|---|---|---|---|")
    for name, title in LISTS.items():
        found = records[name]
        right = sum(one["status"] == 2 and len(one["lines"]) == 1 for one in found)
        seconds = [one["cpu_seconds"] for one in found]
        dearest = max(found, key=lambda one: one["cpu_seconds"])["run"]
        costs = f"{min(seconds):.2f} | {statistics.median(seconds):.2f} | {max(seconds):.2f}"
        print(f"| {title} | {len(found)} | {right} | {costs} | `barl {dearest}` |")
    if options.json:
        options.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
