"""Problems that reasoning-gym makes when they are asked for, so that no model can have seen them.

Only its tasks whose true answer is one number are used: the graders can judge those.
"""

from collections import Counter
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version

LIBRARY = "reasoning_gym:"
"""Prefix of the name of a benchmark that reasoning-gym makes."""

TASKS = (
    "aiw",
    "basic_arithmetic",
    "chain_sum",
    "count_bits",
    "count_primes",
    "decimal_chain_sum",
    "dice",
    "gcd",
    "gsm_symbolic",
    "largest_island",
    "lcm",
    "leg_counting",
    "letter_counting",
    "number_sequence",
    "products",
    "rectangle_count",
    "rotten_oranges",
    "self_reference",
    "simple_equations",
    "simple_geometry",
)
"""Tasks of reasoning-gym with a number for an answer.

Tasks are left out if their answers are texts, lists, moves or numerals of another base, if they
round, or if an equal expression is no answer: to simplify, factor, expand or integrate.
"""

_SEEDS_APART = 1_000_000
"""Distance between the library's seeds for seeds 0 and 1: the most problems of a benchmark."""


@dataclass(frozen=True)
class GeneratedBenchmark:
    """A benchmark that reasoning-gym makes, with the task's default difficulty.

    Problem i is the one that the library makes with the seed `1_000_000 * seed + i`. The library
    adds a problem's number to the seed, so that its seeds 0 and 1 share all but one problem.

    Attributes:
        task: One of [`TASKS`].
        size: Number of problems, repeated ones included.
        seed: Seed, at least 1: models are trained on the problems of the library's small seeds.
        version: Version of reasoning-gym.
    """

    task: str
    size: int
    seed: int
    version: str


def parse_generated(text: str) -> GeneratedBenchmark:
    """Return the benchmark that a text such as `reasoning_gym:gcd:200:7` names.

    Args:
        text: The prefix and the task, then optionally the number of problems (default 100) and the
            seed (default 1), separated by colons.

    Raises:
        ImportError: reasoning-gym is not installed.
        ValueError: There is no such task, or size and seed are no numbers in their range.
    """
    task, *numbers = text.removeprefix(LIBRARY).split(":")
    if task not in TASKS:
        near = get_close_matches(task, TASKS, n=1)
        hint = (
            f"did you mean {near[0]}?" if near else "the library's others have no numeric answer."
        )
        raise ValueError(
            f"benchmarks must name a task of {LIBRARY}{{{', '.join(TASKS)}}}, got {task!r}: {hint}"
        )
    if len(numbers) > 2 or not all(map(str.isdecimal, numbers)):
        raise ValueError(
            f"benchmarks must be named {LIBRARY}TASK:SIZE:SEED, got {text!r}: for instance "
            f"{LIBRARY}{task}:200:7."
        )
    size, seed = (*map(int, numbers), *(100, 1)[len(numbers) :])
    if not 1 <= size <= _SEEDS_APART:
        raise ValueError(
            f"benchmarks must have 1 to {_SEEDS_APART:,} problems, got {size} in {text!r}: "
            f"{LIBRARY}{task}:200 makes 200."
        )
    if seed < 1:
        raise ValueError(
            f"benchmarks must have a seed of at least 1, got {seed} in {text!r}: models may have "
            "been trained on the problems of the library's small seeds."
        )
    try:
        return GeneratedBenchmark(task, size, seed, version("reasoning-gym"))
    except PackageNotFoundError:
        raise ImportError(
            f"benchmarks must do without {LIBRARY}TASK where reasoning-gym is missing, got "
            f"{text!r}: install it with `pip install 'barl-trl[generated]'`."
        ) from None


def generate_problems(
    source: GeneratedBenchmark, limit: int | None = None
) -> tuple[list[tuple[int, str, str]], dict[str, int]]:
    """Make the problems of a benchmark, without those that repeat an earlier one.

    Args:
        source: The benchmark to make.
        limit: Number of problems to make, the first ones. None: all.

    Returns:
        Number, text and true answer of each problem, and the number of problems that were skipped,
        by reason.
    """
    from reasoning_gym import create_dataset  # pyright: ignore[reportMissingImports]

    size = source.size if limit is None else min(limit, source.size)
    made = create_dataset(source.task, seed=_SEEDS_APART * source.seed, size=size)
    texts: set[str] = set()
    problems, skipped = [], Counter()
    for number, row in enumerate(made):
        text = row["question"].strip()
        if text in texts:
            skipped["repeated"] += 1
            continue
        texts.add(text)
        problems.append((number, text, row["answer"].strip()))
    return problems, dict(skipped)
