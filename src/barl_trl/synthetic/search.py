r"""The demo task: find, by trial and error, the one candidate that solves a linear equation.

A problem offers seven candidates. A chain of thought tries them, a line each, and then answers:

    Which of 3, 8, 6, 10, 7, 9, 4 satisfies 3x + 7 = 37?
    Try 8: 3*8 + 7 = 31, no.
    Try 10: 3*10 + 7 = 37, yes.
    Based on the above reasoning, the final answer is \boxed{10}.

To explore well is to try no candidate twice and not to give up early: both can be counted in a
chain (`parse_chain`). The last line is the trainer's default elicitation and an answer, so a model
that was trained on such chains has been asked what every elicitation asks.

The model in `TINY_MODEL_DIR` knows the arithmetic and the format but explores badly;
`scripts/make_tiny_model.py` makes it and says how.
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

CANDIDATE_COUNT = 7
"""Number of candidates that a problem offers."""

# Small ranges (396 equations), so that a model of a million parameters can know every sum.
_SLOPES = range(2, 6)
_OFFSETS = range(1, 10)
_VALUES = range(2, 13)
_HELD_OUT_SHARE = 8  # one equation in eight is held out

_TRY = re.compile(r"Try (\d+): .*")


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
        """Return the line of a chain that tries `candidate`, without its newline.

        >>> SearchProblem((18, 21), slope=3, offset=7, target=70).try_line(18)
        'Try 18: 3*18 + 7 = 61, no.'
        """
        value = self.slope * candidate + self.offset
        verdict = "yes" if value == self.target else "no"
        return f"Try {candidate}: {self.slope}*{candidate} + {self.offset} = {value}, {verdict}."


def problems(
    seed: int, *, held_out: bool = False, num_candidates: int = CANDIDATE_COUNT
) -> Iterator[SearchProblem]:
    """Yield random problems without end, the same for the same seed.

    Args:
        seed: Seed of the stream.
        held_out: Whether to yield problems with an equation that never occurs in training, instead
            of training problems.
        num_candidates: Candidates of a problem, at most 11.

    Yields:
        Problems of which exactly one candidate satisfies the equation.
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
    count: int, *, seed: int, held_out: bool = False, num_candidates: int = CANDIDATE_COUNT
) -> list[dict[str, str]]:
    """Return the first `count` of [`problems`] as data set rows `{"prompt", "solution"}`."""
    stream = islice(problems(seed, held_out=held_out, num_candidates=num_candidates), count)
    return [{"prompt": problem.prompt, "solution": problem.solution} for problem in stream]


@dataclass(frozen=True)
class ChainReport:
    """How a chain of thought explored.

    Attributes:
        tried: Numbers tried, in order, with repetition.
        arithmetic_errors: Number of lines that try a number and get the sum, or the verdict, wrong.
        malformed_lines: Number of lines that neither try a number nor answer.
        answer: The answer that ends the chain; None if it does not stop with one.
    """

    tried: tuple[int, ...]
    arithmetic_errors: int
    malformed_lines: int
    answer: str | None

    @property
    def repeats(self) -> int:
        """Number of tries of a number that was tried before."""
        return len(self.tried) - len(set(self.tried))


def parse_chain(problem: SearchProblem, completion: str) -> ChainReport:
    r"""Count what a completion did, line by line.

    A last line that was cut off counts as malformed. An answer counts only at the very end, in the
    words of the elicitation: with text after it, the chain did not stop with an answer.

    >>> problem = SearchProblem((18, 21), slope=3, offset=7, target=70)
    >>> text = "Try 18: 3*18 + 7 = 61, no.\nTry 18: 3*18 + 7 = 60, no." + ELICITATION + "{21}."
    >>> parse_chain(problem, text)
    ChainReport(tried=(18, 18), arithmetic_errors=1, malformed_lines=0, answer='21')
    """
    # The newline in front of an answer without any tries may be the prompt's last.
    chain, asked, answer = ("\n" + completion).rpartition(ELICITATION + "{")
    answered = bool(asked) and re.fullmatch(r"\d+\}\.", answer) is not None
    lines = (chain if answered else completion).strip("\n").split("\n")
    tried = []
    arithmetic_errors = malformed_lines = 0
    for line in filter(None, lines):
        match = _TRY.fullmatch(line)
        if match is None or not line.endswith((" yes.", " no.")):
            malformed_lines += 1
            continue
        tried.append(int(match[1]))
        arithmetic_errors += line != problem.try_line(tried[-1])
    final = answer.removesuffix("}.") if answered else None
    return ChainReport(tuple(tried), arithmetic_errors, malformed_lines, final)
