"""Make word problems: `train.jsonl`, `test.jsonl`, and `solutions.jsonl` for the warm-up.

`python examples/real_model/problems.py FOLDER [--train 2000] [--test 200] [--solutions 200]`. No
problem is in two of the files. Each has two or three steps of arithmetic; all numbers, names and
orders are drawn with a fixed seed.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

NAMES = ("Ada", "Ben", "Carla", "David", "Elif", "Farid", "Grace", "Hugo", "Ines", "Jonas")
THINGS = ("apples", "books", "cards", "coins", "eggs", "marbles", "pens", "shells", "stamps")


def packs(rng: Random, name: str, thing: str) -> tuple[str, list[str], int]:
    """Return a problem of a product and a sum, the steps to its answer, and the answer."""
    a, b, c = rng.randint(2, 5), rng.randint(2, 6), rng.randint(2, 9)
    problem = (
        f"{name} buys {a} packs of {b} {thing} and finds {c} more. "
        f"How many {thing} does {name} have?"
    )
    steps = [f"The packs hold {a} * {b} = {a * b}.", f"With {c} more: {a * b} + {c} = {a * b + c}."]
    return problem, steps, a * b + c


def gifts(rng: Random, name: str, thing: str) -> tuple[str, list[str], int]:
    """Return a problem of a sum, a product and a difference."""
    a, b, c = rng.randint(12, 20), rng.randint(2, 4), rng.randint(2, 3)
    more = rng.randint(2, 9)
    left = a + more - b * c
    problem = (
        f"{name} has {a} {thing}, gets {more} more, and gives {c} {thing} to each of {b} friends. "
        f"How many {thing} are left?"
    )
    steps = [
        f"At first {a} + {more} = {a + more}.",
        f"The friends get {b} * {c} = {b * c}.",
        f"So {a + more} - {b * c} = {left} are left.",
    ]
    return problem, steps, left


def days(rng: Random, name: str, thing: str) -> tuple[str, list[str], int]:
    """Return a problem of two products and a sum."""
    a, b, c, d = (rng.randint(2, 5) for _ in range(4))
    problem = (
        f"{name} finds {a} {thing} on each of {b} days, and then {c} {thing} on each of {d} days. "
        f"How many {thing} does {name} find in all?"
    )
    steps = [
        f"In the first days {a} * {b} = {a * b}.",
        f"In the other days {c} * {d} = {c * d}.",
        f"In all {a * b} + {c * d} = {a * b + c * d}.",
    ]
    return problem, steps, a * b + c * d


def problems(seed: int) -> Iterator[dict[str, str]]:
    """Yield problems without end, each once: the text, the answer, and a worked solution."""
    rng, seen = Random(seed), set()
    while True:
        kind = rng.choice((packs, gifts, days))
        problem, steps, answer = kind(rng, rng.choice(NAMES), rng.choice(THINGS))
        if problem not in seen:
            seen.add(problem)
            solution = "\n".join([*steps, rf"The answer is \boxed{{{answer}}}."])
            yield {"problem": problem, "answer": str(answer), "solution": solution}


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description="Make word problems.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=int, default=2000)
    parser.add_argument("--test", type=int, default=200)
    parser.add_argument("--solutions", type=int, default=200)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    source = problems(seed=0)
    for name in ("test", "solutions", "train"):
        rows = [next(source) for _ in range(getattr(args, name))]
        if name != "solutions":
            rows = [{key: row[key] for key in ("problem", "answer")} for row in rows]
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        (args.folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
