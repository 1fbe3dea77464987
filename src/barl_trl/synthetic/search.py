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
"""

import random
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ..plausibility.elicitation import DEFAULT_ELICITATION as ELICITATION

TINY_MODEL_DIR = Path(__file__).parents[1] / "assets" / "tiny-search"
"""Folder of the shipped model and tokenizer, for `from_pretrained`."""

STEP_DELIMITER = "."
"""Ends a line, and with it a reasoning step: the elicitation's line break follows a whole line."""

# Small ranges (396 equations), so that a model of a million parameters can know every sum.
_SLOPES = range(2, 6)
_OFFSETS = range(1, 10)
_VALUES = range(2, 13)
_HELD_OUT_SHARE = 8  # one equation in eight is held out

_TRY = re.compile(r"^Try (\d+): .* (?:yes|no)\.$", re.MULTILINE)


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
    count: int, *, seed: int, held_out: bool = False, num_candidates: int = 7
) -> list[dict[str, str]]:
    """Return the first `count` of [`problems`] as data set rows `{"prompt", "solution"}`."""
    stream = islice(problems(seed, held_out=held_out, num_candidates=num_candidates), count)
    return [{"prompt": problem.prompt, "solution": problem.solution} for problem in stream]


def parse_chain(completion: str) -> tuple[list[int], str | None]:
    r"""Return the numbers that a completion tries, with repetition, and the answer that ends it.

    The answer is None unless it stands at the very end, in the words of the elicitation.

    >>> parse_chain("Try 8: 3*8 + 7 = 31, no.\nTry 8: 3*8" + ELICITATION + "{10}.")
    ([8], '10')
    """
    # The newline in front of an answer without any tries may be the prompt's last.
    chain, asked, answer = ("\n" + completion).rpartition(ELICITATION + "{")
    answered = bool(asked) and re.fullmatch(r"\d+\}\.", answer) is not None
    tried = [int(number) for number in _TRY.findall(chain if answered else completion)]
    return tried, answer.removesuffix("}.") if answered else None
