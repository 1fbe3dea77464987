r"""The demo task: find, by trial and error, the one candidate that solves a linear equation.

A problem offers seven candidates. A chain of thought tries them, a line each, and then answers:

    Which of 3, 8, 6, 10, 7, 9, 4 satisfies 3x + 7 = 37?
    Try 8: 3*8 + 7 = 31, no.
    Try 10: 3*10 + 7 = 37, yes.
    Based on the above reasoning, the final answer is \boxed{10}.

To explore well is to try no candidate twice and not to give up early. The last line is the
trainer's default elicitation and an answer, so a model that was trained on such chains has been
asked what every elicitation asks.

The model in `TINY_MODEL_DIR` knows all that but explores badly (`scripts/make_tiny_model.py`).

A line that is true rules candidates out. [`observation_likelihood`] says so, for training with the
task's belief: the candidates are the hypotheses.
"""

import math
import random
import re
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

TINY_MODEL_DIR = Path(__file__).parents[1] / "assets" / "tiny-search"
"""Folder of the shipped model and tokenizer, for `from_pretrained`."""

STEP_DELIMITER = "."
"""Ends a line, and with it a reasoning step: the elicitation's line break follows a whole line."""

# Small ranges (396 equations), so that a model of a million parameters can know every sum.
_SLOPES = range(2, 6)
_OFFSETS = range(1, 10)
_VALUES = range(2, 13)
_HELD_OUT_SHARE = 8  # one equation in eight is held out

_NUMBER = r"\d{1,18}"  # Python reads no more than 4300 digits
_TRY = re.compile(rf"^Try ({_NUMBER}): .* (?:yes|no)\.$", re.MULTILINE)
_PROMPT = re.compile(
    rf"Which of ((?:{_NUMBER}, )*{_NUMBER}) satisfies "
    rf"({_NUMBER})x \+ ({_NUMBER}) = ({_NUMBER})\?"
)


@dataclass(frozen=True)
class SearchProblem:
    """The question which of `candidates` satisfies `slope * x + offset = target`.

    Attributes:
        candidates: Distinct numbers, in the order of the prompt; exactly one is the solution.
        slope: Coefficient of the unknown, positive.
        offset: Constant on the left side.
        target: Right side.
    """

    candidates: tuple[int, ...]
    slope: int
    offset: int
    target: int

    @classmethod
    def of_prompt(cls, prompt: str) -> "SearchProblem | None":
        """Return the problem that a prompt asks; None if it asks none."""
        match = _PROMPT.search(prompt)
        if match is None:
            return None
        candidates = tuple(int(number) for number in match[1].split(", "))
        return cls(candidates, *map(int, match.groups()[1:]))

    @property
    def prompt(self) -> str:
        """The question, ending in a newline."""
        listed = ", ".join(map(str, self.candidates))
        return f"Which of {listed} satisfies {self.slope}x + {self.offset} = {self.target}?\n"

    @property
    def solution(self) -> str:
        """The candidate that satisfies the equation, as the text of an answer."""
        return str((self.target - self.offset) // self.slope)

    @property
    def held_out(self) -> bool:
        """Whether no training problem has this equation, whatever its candidates."""
        equation = f"{self.slope}x + {self.offset} = {self.target}"
        # `hash` would part the equations differently in each process and Python version.
        return zlib.crc32(equation.encode()) % _HELD_OUT_SHARE == 0

    def try_line(self, candidate: int) -> str:
        """Return the line of a chain that tries `candidate`, without its newline."""
        value = self.slope * candidate + self.offset
        verdict = "yes" if value == self.target else "no"
        return f"Try {candidate}: {self.slope}*{candidate} + {self.offset} = {value}, {verdict}."


def problems(
    seed: int, *, held_out: bool = False, num_candidates: int = 7
) -> Iterator[SearchProblem]:
    """Yield random problems without end, the same for the same seed.

    The held-out ones have equations that never occur in training. At most 11 candidates.
    """
    rng = random.Random(seed)
    while True:
        candidates = tuple(rng.sample(_VALUES, num_candidates))
        slope, offset = rng.choice(_SLOPES), rng.choice(_OFFSETS)
        target = slope * rng.choice(candidates) + offset
        problem = SearchProblem(candidates, slope=slope, offset=offset, target=target)
        if problem.held_out == held_out:
            yield problem


def search_rows(
    count: int,
    *,
    seed: int,
    held_out: bool = False,
    num_candidates: int = 7,
    with_candidates: bool = False,
) -> list[dict[str, Any]]:
    """Return the first `count` of [`problems`] as data set rows `{"prompt", "solution"}`.

    Args:
        count: Number of rows.
        seed: Seed of the problems.
        held_out: Whether their equations never occur in training.
        num_candidates: Numbers to choose from, at most 11.
        with_candidates: Whether rows have them, as texts, in the column `candidates`: what may be
            true, all alike before any line, for `hypotheses_column`.
    """
    stream = islice(problems(seed, held_out=held_out, num_candidates=num_candidates), count)
    problem_rows: list[dict[str, Any]] = []
    for problem in stream:
        problem_rows.append({"prompt": problem.prompt, "solution": problem.solution})
        if with_candidates:
            problem_rows[-1]["candidates"] = [str(number) for number in problem.candidates]
    return problem_rows


def observation_likelihood(
    prompts: Sequence[str],
    hypotheses: Sequence[Sequence[str]],
    steps: Sequence[Sequence[str]],
    **kwargs: Any,
) -> list[list[list[float]]]:
    r"""Say what each step of a chain rules out, for the trainer's argument of this name.

    A line "Try 8: 3*8 + 7 = 31, no." rules out 8, a line with "yes" all others. Only a line that is
    true in the prompt's equation says anything: the policy writes the lines itself, and would learn
    to write "yes" to what it likes. A line counts in the step that completes it.

    Args:
        prompts: Prompt of each rollout.
        hypotheses: Of each rollout the texts of its hypotheses.
        steps: Of each rollout the texts of its steps.
        **kwargs: The other columns of the rollouts, which are not used.

    Returns:
        For each rollout, step and hypothesis 0, or -inf where it is ruled out.

    Example:
        >>> prompt = "Which of 3, 8, 10 satisfies 3x + 7 = 37?"
        >>> line = "Try 8: 3*8 + 7 = 31, no."
        >>> observation_likelihood([prompt], [["10", "3", "8"]], [[line]])
        [[[0.0, 0.0, -inf]]]
    """
    output = []
    for prompt, texts, parts in zip(prompts, hypotheses, steps, strict=True):
        said = [[0.0] * len(texts) for _ in parts]
        output.append(said)
        problem = SearchProblem.of_prompt(prompt)
        if problem is None:
            continue
        ends = [*accumulate(map(len, parts))]
        for line in _TRY.finditer("".join(parts)):
            if line[0] != problem.try_line(int(line[1])):
                continue
            is_right, step = line[0].endswith("yes."), bisect_left(ends, line.end())
            for i, text in enumerate(texts):
                if (text == line[1]) != is_right:
                    said[step][i] = -math.inf
    return output
