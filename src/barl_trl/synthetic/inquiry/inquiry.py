"""What is known of a game of finding out: hypotheses, questions, and the replies that they get."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUM_GAMES = 10_000
"""Number of different prompts of an inquiry: each names a game by a number below this one."""


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
        right = self.table[self._question_places[question]] == self._reply_places[reply]
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
