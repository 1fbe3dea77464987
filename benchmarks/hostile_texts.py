r"""Whether what reads completions takes time that grows at most linearly with them, up to 1 MB.

`python benchmarks/hostile_texts.py [READER ...] [--pairs 1000] [--seed 0] [--json FILE]` makes
hostile texts of fragments that patterns look for: each alone, repeated, and random pairs of them,
in turns, one behind the other, and one around the other. Each reader reads all of them at 10 kB.
It reads those that took longest at 100 kB and 1 MB, too. The table has the most CPU seconds at each
size, and the largest ratio from 100 kB to 1 MB: 10 is linear, 100 quadratic. A reading is
ended after 60 CPU seconds.
"""

import argparse
import json
import math
import os
import random
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from barl_trl.commands.shell.parsers import printable
from barl_trl.data import contamination
from barl_trl.graders import GRADERS, extract_answer
from barl_trl.graders.extraction import EXTRACTIONS
from barl_trl.hypotheses import truth_answer
from barl_trl.report.markdown import code, escape
from barl_trl.rewards import format_reward, get_reward_func
from barl_trl.steps import delimited_steps
from barl_trl.synthetic.search import SearchProblem, observation_likelihood, parse_chain
from barl_trl.trainer.logging.completions_print import shortened

SIZES = 10_000, 100_000, 1_000_000
MOST_SECONDS = 60
SLOWEST = 3
TRUTH = "42"
# fmt: off
FRAGMENTS = (
    r"\boxed{", r"\boxed", r"\boxed 1", r"\fbox{", "boxed", "{", "}", "{}", "\\", r"\\", "(", ")",
    "[", "]", r"\[", r"\]", r"\(", r"\)", "|", "&", "$", "$$", "$ ", "#", "#### ", "~", "~~", "`",
    r"\frac", r"\frac{1}{2}", r"\sqrt", r"\sqrt{", r"\left", r"\right", r"\!", r"\%", "%", "^", "_",
    r"^\circ", r"\text{", r"\text{ or }", r"\mathrm{", r"\begin{pmatrix}", r"\end{pmatrix}", r"\pm",
    r"\cup", r"\infty", r"\{", r"\}", r"\pi", r"\le", r"\sum", r"\binom", "!", "...", ".", ",", ";",
    ":", "=", "<", ">", "+", "-", "*", "**", "**4 ", "/", "'", '"', "0", "1", "9.", "1,000", "1/",
    "-1", "0.5", "1e5", "x", "e", "inf", "nan", "mod", "yes", "or", "and", "percent", "answer",
    "answer: ", "the answer is ", "The answer is 4. ", "<answer>", "</answer>", "<think>",
    "</think>", "<tool_call>", "</tool_call>", '{"name": "', "Try 1: ", "Try 1: a, no.\n", " yes.",
    "__", "lambda", " ", "\n", "\n\n", "\t", "\x00", "\x1b[2J", "é", "１", "²", "½", "∞", "或",
    "\ud800", "\u202e", "\u200b", "\u0301",
)
# fmt: on


def readers() -> dict[str, Callable[[str], Any]]:
    """Return what reads a completion or an answer, by name."""
    problem = SearchProblem((8, 10), 3, 7, 31)
    words = "A train leaves at noon and goes 60 miles an hour for 2 hours"
    think = get_reward_func("think_format_reward")
    made: dict[str, Callable[[str], Any]] = {
        f"extract_answer, {name}": partial(extract_answer, extraction=name) for name in EXTRACTIONS
    }
    for name, grader in GRADERS.items():
        made[f"{name}, completion"] = grader.extract_answer
        made[f"{name}, answer"] = partial(grader.judge, TRUTH)
        made[f"{name}, true answer"] = lambda text, grader=grader: grader.judge(text, TRUTH)
    return made | {
        "truth_answer": truth_answer,
        "format_reward": lambda text: format_reward([text]),
        "think_format_reward (TRL's)": lambda text: think([[{"content": text}]]),
        "delimited_steps": lambda text: delimited_steps(
            [*map(ord, text)], decode=lambda ids: chr(ids[0]), delimiter="\n\n"
        ),
        "search: parse_chain": parse_chain,
        "search: observation_likelihood": lambda text: observation_likelihood(
            [problem.prompt], [["8", "10"]], [[text]]
        ),
        "decontamination": lambda text: contamination([f"{words} {text}"], {"mine": [words]}),
        "markdown": lambda text: (escape(text), code(text)),
        "completions' table": partial(shortened, most=200),
        "terminal": printable,
    }


def texts(pairs: int, seed: int) -> list[tuple[str, ...]]:
    """Return shapes of texts: how fragments are put together, and which."""
    rng = random.Random(seed)
    shapes: list[tuple[str, ...]] = [("alone", one) for one in FRAGMENTS]
    for _ in range(pairs):
        kind = rng.choice(("turns", "behind", "around", "opened"))
        shapes.append((kind, *rng.choices(FRAGMENTS, k=2)))
    return shapes


def made(shape: tuple[str, ...], size: int) -> str:
    """Return the text of a shape and a size."""
    kind, one, *other = shape
    if kind == "alone":
        return (one * size)[:size]
    if kind == "turns":
        return ((one + other[0]) * size)[:size]
    if kind == "opened":
        return (one + other[0] * size)[:size]
    half = size // 2
    first, last = (one * half)[:half], (other[0] * half)[:half]
    if kind == "behind":
        return first + last
    third = size // 3
    return (one * third)[:third] + (other[0] * third)[:third] + (one * third)[:third]


def seconds(read: Callable[[str], Any], text: str) -> float | str:
    """Return the CPU seconds of a reading, or the error that it raised."""
    start = time.process_time()
    try:
        read(text)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    return time.process_time() - start


def in_child(read: Callable[[str], Any], shapes: list[tuple[str, ...]], size: int) -> list[Any]:
    """Return what `seconds` returns of each text, in a fork; infinity where the kernel ended it."""
    ours, theirs = os.pipe()
    if not (child := os.fork()):
        os.close(ours)
        with os.fdopen(theirs, "w", buffering=1) as file:
            for shape in shapes:
                most = int(time.process_time()) + MOST_SECONDS
                resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
                print(json.dumps(seconds(read, made(shape, size))), file=file)
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as file:
        taken = [*map(json.loads, file)]
    os.waitpid(child, 0)
    if len(taken) == len(shapes):
        return taken
    return [*taken, math.inf, *in_child(read, shapes[len(taken) + 1 :], size)]


def measure(read: Callable[[str], Any], shapes: list[tuple[str, ...]]) -> dict[str, Any]:
    """Return the most CPU seconds at each size, the largest ratio, and what took longest."""
    small = [*zip(in_child(read, shapes, SIZES[0]), shapes, strict=True)]
    raised = [one for one in small if isinstance(one[0], str)]
    slowest = sorted((one for one in small if one not in raised), reverse=True)[:SLOWEST]
    chosen = [shape for _, shape in slowest]
    columns = [[taken for taken, _ in slowest]]
    columns += [in_child(read, chosen, size) for size in SIZES[1:]]
    rows = [*zip(*columns, chosen, strict=True)]
    return {
        **{f"{size // 1000} kB": max(columns[n]) for n, size in enumerate(SIZES)},
        "ratio": max(row[2] / max(row[1], 1e-3) for row in rows),
        "slowest": max(rows, key=lambda row: row[2])[-1],
        "raised": raised,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("readers", nargs="*", metavar="READER")
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    records, shapes = [], texts(options.pairs, options.seed)
    print(
        "| reader | " + " | ".join(f"{size // 1000} kB" for size in SIZES) + " | ratio | slowest |"
    )
    print("|---" * (len(SIZES) + 3) + "|")
    for name, read in readers().items():
        if options.readers and name not in options.readers:
            continue
        records.append({"reader": name, "texts": len(shapes), **measure(read, shapes)})
        *_, last = records
        times = " | ".join(f"{last[f'{size // 1000} kB']:.4f}" for size in SIZES)
        print(f"| {name} | {times} | {last['ratio']:.0f} | `{last['slowest']!r}` |", flush=True)
        if last["raised"]:
            print(f"raised: {last['failed'][:5]}", file=sys.stderr, flush=True)
    if options.json:
        options.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
