r"""What 20,000 pairs from 8 threads take in the grader, and 250,000 rows in the check of data.

`python benchmarks/scale.py [--pairs N] [--threads N] [--rows N]` prints a table. Answers are those
of `math_like.py`. Each part runs in a process of its own. CPU seconds are those of the part and of
the grader's processes that it started; memory is the peak of the larger of both kinds.

- Pairs: each thread judges its share with one grader, and nothing is remembered before. The
  verdicts must be those which one thread comes to, of every tenth pair, with another grader.
- Rows: `barl data check FILE --against` 500 evaluation problems. A hundredth of the rows has no
  answer, and another hundredth is an evaluation problem.
"""

import argparse
import copy
import ctypes
import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from math_like import make_prompts

from barl_trl.graders import get_grader
from barl_trl.graders.processes import compare

ROLLOUTS = 5
EVALUATION = 500
_PR_SET_CHILD_SUBREAPER = 36  # of Linux: orphans become ours, and their CPU time


def judge(pairs: int, threads: int) -> None:
    """Judge pairs from threads, and print what came of it."""
    prompts = make_prompts(pairs, ROLLOUTS, 0)
    made = ((prompt.gold, rollout.answer) for prompt in prompts for rollout in prompt.rollouts)
    given = [*dict.fromkeys(made)][:pairs]
    grader = copy.copy(get_grader("math_verify"))
    with ThreadPoolExecutor(threads) as pool:
        shares = [given[n::threads] for n in range(threads)]
        judged = [*pool.map(lambda share: [grader.verify(*pair) for pair in share], shares)]
    verdicts = {
        pair: verdict
        for share, parts in zip(shares, judged, strict=True)
        for pair, verdict in zip(share, parts, strict=True)
    }
    alone = copy.copy(grader)
    others = sum(alone.verify(*pair) != verdicts[pair] for pair in given[::10])
    failures = sum(verdict.is_failure for verdict in verdicts.values())
    compare.close()
    print(f"{len(verdicts):,} different ones, {failures} failures, {others} other verdicts")


def problem(number: int) -> str:
    """Return the text of a problem, of made-up words; those below `EVALUATION` are evaluated."""
    rng = random.Random(number)
    words = ("".join(rng.choices("aeioulmnrst", k=rng.randint(2, 9))) for _ in range(40))
    return f"{' '.join(words)} ${rng.randint(2, 99)}x + {rng.randint(2, 99)} = {number}$?"


def write_rows(folder: Path, number: int) -> None:
    """Write a data set and evaluation problems."""
    prompts = make_prompts(number, 1, 1)
    with (folder / "rows.jsonl").open("w", encoding="utf-8") as file:
        for n, prompt in enumerate(prompts):
            place = n % EVALUATION if n % 100 == 1 else EVALUATION + n
            row = {"problem": problem(place), "answer": "" if n % 100 == 0 else prompt.gold}
            print(json.dumps(row), file=file)
    with (folder / "evaluation.jsonl").open("w", encoding="utf-8") as file:
        for n in range(EVALUATION):
            print(json.dumps({"problem": problem(n), "answer": "1"}), file=file)


def check_command(folder: Path, number: int) -> list[str]:
    """Return the command that checks a data set, which another process writes.

    A process that starts others hands its own memory on to their peak.
    """
    writer = get_context("fork").Process(target=write_rows, args=(folder, number))
    writer.start()
    writer.join()
    barl = str(Path(sys.executable).with_name("barl"))
    against = f"evaluation={folder}/evaluation.jsonl"
    return [barl, "data", "check", f"{folder}/rows.jsonl", "--against", against]


def measured(command: list[str]) -> tuple[str, float, float, float]:
    """Run a command; return the last line that it prints, CPU seconds, seconds and MiB."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        last = line.strip() or last
    usages = [os.wait4(process.pid, 0)[2]]
    seconds = time.perf_counter() - start
    with suppress(ChildProcessError):
        while True:
            usages.append(os.wait3(0)[2])  # of processes that it did not wait for
    cpu = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    return last, cpu, seconds, max(usage.ru_maxrss for usage in usages) / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--judge", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.judge:
        judge(options.pairs, options.threads)
        return
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    given = ["--pairs", str(options.pairs), "--threads", str(options.threads)]
    print("| what | CPU s | s | MiB | result |\n|---|---|---|---|---|")
    with TemporaryDirectory() as folder:
        for name, command in (
            (
                f"{options.pairs:,} pairs from {options.threads} threads",
                [sys.executable, __file__, "--judge", *given],
            ),
            (f"{options.rows:,} rows checked", check_command(Path(folder), options.rows)),
        ):
            result, cpu, seconds, memory = measured(command)
            print(f"| {name} | {cpu:.0f} | {seconds:.0f} | {memory:.0f} | {result} |", flush=True)


if __name__ == "__main__":
    main()
