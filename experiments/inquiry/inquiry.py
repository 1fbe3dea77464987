"""Games of finding out: a secret of a known list, questions whose replies depend on it, an answer.

There are four kinds: a number, a code of coloured pegs, a word, an animal.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUM_GAMES = 10_000
"""Number of different prompts of an inquiry: each names a game by a number below this one."""

ASSETS = Path(__file__).parent / "assets"
_COLOURS = "ABCDEFGH"


@dataclass(frozen=True, eq=False)
class Inquiry:
    """A secret of a list, and questions about it. Each question has one right reply per secret.

    Attributes:
        message: What the prompt asks.
        hypotheses: The H texts that may be the secret.
        questions: The Q texts that may be asked.
        judge: Question, hypothesis -> the right reply.
        error_rate: Probability of a wrong reply; each of the wrong ones is as likely.
    """

    message: str
    hypotheses: tuple[str, ...]
    questions: tuple[str, ...]
    judge: Callable[[str, str], str]
    error_rate: float = 0.0

    @cached_property
    def replies(self) -> tuple[str, ...]:
        """The texts that may be replied."""
        return self._judged[0]

    @cached_property
    def table(self) -> NDArray[np.int64]:
        """Index of the right reply to each question under each hypothesis, `[Q, H]`."""
        return self._judged[1]

    @cached_property
    def places(self) -> dict[str, int]:
        """Index of each hypothesis."""
        return {text: place for place, text in enumerate(self.hypotheses)}

    def log_likelihoods(self, question: str, reply: str) -> NDArray[np.float64]:
        """Return the log-likelihood of a reply under each hypothesis, `[H]`, in nats.

        What is no question or no reply of this inquiry says nothing: all are 0.
        """
        if question not in self._question_places or reply not in self._reply_places:
            return np.zeros(len(self.hypotheses))
        right = self.right_replies(question) == self._reply_places[reply]
        wrong = self.error_rate / max(1, len(self.replies) - 1)
        with np.errstate(divide="ignore"):
            return np.log(np.where(right, 1 - self.error_rate, wrong))

    def reply(self, question: str, secret: str, rng: Any = random) -> str:
        """Return a reply to a question, drawn with Python's generator, which checkpoints save.

        Raises:
            KeyError: There is no such question.
        """
        right = int(self.table[self._question_places[question], self.places[secret]])
        if self.error_rate and rng.random() < self.error_rate:
            return rng.choice([*self.replies[:right], *self.replies[right + 1 :]])
        return self.replies[right]

    def right_replies(self, question: str) -> NDArray[np.int64]:
        """Return the index of the right reply to a question under each hypothesis, `[H]`."""
        return self.table[self._question_places[question]]

    def is_question(self, text: str) -> bool:
        """Return whether a text may be asked."""
        return text in self._question_places

    def rows(
        self,
        count: int,
        *,
        seed: int,
        num_prompts: int | None = None,
        secrets: Sequence[str] | None = None,
    ) -> list[dict[str, Any]]:
        """Return data set rows `{"prompt", "solution", "candidates"}` with random secrets.

        Args:
            count: Number of rows.
            seed: Seed of the prompts and the secrets.
            num_prompts: Number of different prompts, each of which always has the same secret, so
                that a policy can learn them by heart. None: each row's prompt has a random number
                that says nothing of its secret.
            secrets: Hypotheses that may be the secret; None: all. All are candidates in any case.
        """
        rng = random.Random(seed)
        allowed = [*(secrets or self.hypotheses)]
        games = rng.sample(range(NUM_GAMES), num_prompts or 0)
        fixed = [(game, rng.choice(allowed)) for game in games]
        problem_rows = []
        for n in range(count):
            game, secret = fixed[n % len(fixed)] if fixed else (None, rng.choice(allowed))
            game = rng.randrange(NUM_GAMES) if game is None else game
            message = {"role": "user", "content": self.prompt(game)}
            problem_rows.append(
                {"prompt": [message], "solution": secret, "candidates": [*self.hypotheses]}
            )
        return problem_rows

    def prompt(self, game: int) -> str:
        """Return the message of the prompt of a game, by its number."""
        return f"Game {game:04}. {self.message}"

    @cached_property
    def _judged(self) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        judged = [[self.judge(q, secret) for secret in self.hypotheses] for q in self.questions]
        replies = sorted({text for row in judged for text in row})
        places = {text: place for place, text in enumerate(replies)}
        return tuple(replies), np.array([[places[text] for text in row] for row in judged])

    @cached_property
    def _question_places(self) -> dict[str, int]:
        return {text: place for place, text in enumerate(self.questions)}

    @cached_property
    def _reply_places(self) -> dict[str, int]:
        return {text: place for place, text in enumerate(self.replies)}


@cache
def number(count: int = 16, *, error_rate: float = 0.0) -> Inquiry:
    """Return the game of a number from 1 to `count`: is it at least another one?"""
    numbers = tuple(map(str, range(1, count + 1)))
    return Inquiry(
        message=f"Which number from 1 to {count} is it?",
        hypotheses=numbers,
        questions=numbers[1:],
        judge=lambda question, secret: "yes" if int(secret) >= int(question) else "no",
        error_rate=error_rate,
    )


@cache
def code(length: int = 3, colours: int = 6) -> Inquiry:
    """Return the game of a code of coloured pegs, as in Mastermind; a question is a guess.

    The reply counts the pegs that are right (black), and those whose colour is right elsewhere
    (white).
    """
    if not 1 <= colours <= len(_COLOURS):
        raise ValueError(f"colours must be 1 to {len(_COLOURS)}, got {colours}.")
    codes = tuple(map("".join, product(_COLOURS[:colours], repeat=length)))

    def pegs(guess: str, secret: str) -> str:
        black = sum(a == b for a, b in zip(guess, secret, strict=True))
        return f"{black} black, {(Counter(guess) & Counter(secret)).total() - black} white"

    colours_of = f"{length} letters from A to {_COLOURS[colours - 1]}"
    return Inquiry(f"Which code of {colours_of} is it?", codes, codes, pegs)


@cache
def words(count: int = 300) -> Inquiry:
    """Return the game of `count` words of our list of five letters each; a question is one of them.

    The reply marks each letter: `+` in its place, `?` in the word elsewhere, `-` not in it.
    """
    listed = (ASSETS / "words.txt").read_text(encoding="utf-8").split()
    if not 1 <= count <= len(listed):
        raise ValueError(f"count must be 1 to {len(listed)}, got {count}.")
    step = len(listed) / count  # spread over the alphabet
    chosen = tuple(listed[int(n * step)] for n in range(count))
    return Inquiry("Which word of five letters is it?", chosen, chosen, letter_marks)


def letter_marks(guess: str, secret: str) -> str:
    """Return the marks of a guess: `+` in its place, `?` elsewhere in the secret, `-` not in it.

    A letter is marked as often as the secret has it, first where it is in its place.

    Example:
        >>> letter_marks("geese", "elegy")
        '??+--'
    """
    left = Counter(b for a, b in zip(guess, secret, strict=True) if a != b)
    marks = []
    for a, b in zip(guess, secret, strict=True):
        is_elsewhere = a != b and left[a] > 0
        left[a] -= is_elsewhere
        marks.append("+" if a == b else "?" if is_elsewhere else "-")
    return "".join(marks)


@cache
def animals(*, error_rate: float = 0.1) -> Inquiry:
    """Return the game of 64 animals, with the questions of a table that we made."""
    lines = (ASSETS / "animals.tsv").read_text(encoding="utf-8").splitlines()
    (_, *questions), *table = (line.split("\t") for line in lines)
    replies_of = {name: dict(zip(questions, replies, strict=True)) for name, *replies in table}
    return Inquiry(
        message="Which animal is it?",
        hypotheses=tuple(replies_of),
        questions=tuple(questions),
        judge=lambda question, animal: "yes" if replies_of[animal][question] == "1" else "no",
        error_rate=error_rate,
    )
