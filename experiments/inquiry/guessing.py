"""A public game: GuessTheNumber of TextArena (`pip install textarena`), played in text.

Each turn is a guess such as `[7]`; the game says if its number is higher or lower.
"""

import random
import re
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .environments import InquiryEnvironment, information_reward
from .inquiry import Inquiry

COUNT, MOST_TURNS = 20, 5
PROMPT = f"Guess a number from 1 to {COUNT} in {MOST_TURNS} turns."
"""The game's own prompt has hundreds of letters, which the small model would read as such."""
HIGHER, LOWER, RIGHT = "The target number is higher.", "The target number is lower.", "right"


class _Rows(Inquiry):
    """Rows that have a seed of the game for the secret, which only the game knows."""

    def rows(self, count: int, *, seed: int, **options: Any) -> list[dict[str, Any]]:
        rng = random.Random(seed)
        message = {"role": "user", "content": self.message}
        return [{"prompt": [message], "seed": rng.randrange(2**31)} for _ in range(count)]


@cache
def guessing() -> Inquiry:
    """Return the game as an inquiry, whose questions are guesses."""
    numbers = tuple(map(str, range(1, COUNT + 1)))
    return _Rows(PROMPT, numbers, numbers, _judged)


def _judged(guess: str, secret: str) -> str:
    away = int(secret) - int(guess)
    return RIGHT if away == 0 else HIGHER if away > 0 else LOWER


class GuessTheNumber(InquiryEnvironment):
    """Plays the game for [`text_rollouts`][barl_trl.text_rollouts]."""

    inquiry = guessing()
    """What a guess may be, and what its reply means."""

    def reset(self, seed: int, **row: Any) -> None:
        """Begin a game."""
        textarena: Any = import_module("textarena")  # only this game needs it
        state = random.getstate()
        self._game: Any = textarena.make("GuessTheNumber-v0-raw", max_turns=MOST_TURNS)
        self._game.reset(num_players=1, seed=seed)  # it seeds Python's generator
        random.setstate(state)
        super().reset(str(self._game.state.game_state["game_number"]))
        self.answer: str | None = None
        self._game.get_observation()

    def step(self, text: str) -> tuple[str, float, bool]:
        """Make a guess, and return the reply, the reward of the turn and if the game is over."""
        before = self.belief
        is_over, _ = self._game.step(text)
        reply = " ".join(said for who, said, _ in self._game.get_observation()[1] if who == -1)
        guess = re.search(r"\[(\d+)\]", text)
        if guess and self.inquiry.is_question(guess[1]):
            self.num_questions += 1
            self.answer = guess[1]
            self._learn(guess[1], RIGHT if guess[1] == self.secret else reply)
        return reply, information_reward(before, self.belief), is_over


class GuessWithBelief(GuessTheNumber):
    """The same without rewards of turns, and with what the replies mean.

    What is said after the last turn is no reply: that guess is the answer.
    """

    def reset(self, seed: int, **row: Any) -> None:
        """Begin a game."""
        super().reset(seed, **row)
        self.hypotheses, self.solution = [*self.inquiry.hypotheses], self.secret
        self._told: list[NDArray[np.float64]] = []

    def step(self, text: str) -> tuple[str, None, bool]:
        """Make a guess, and return the reply, no reward and if the game is over."""
        guesses = self.num_questions
        reply, _, is_over = super().step(text)
        logs = np.zeros(COUNT)
        if guesses < self.num_questions and len(self._told) < MOST_TURNS - 1:
            said = RIGHT if self.answer == self.secret else reply
            logs = self.inquiry.log_likelihoods(str(self.answer), said)
        self._told.append(logs)
        return reply, None, is_over

    def _observation_log_likelihoods(
        self, hypotheses: Sequence[str], steps: Sequence[Any]
    ) -> NDArray[np.float64]:
        places = [self.inquiry.places[text] for text in hypotheses]
        told = [*self._told, *(np.zeros(COUNT) for _ in steps)]  # a turn may have been cut off
        return np.array(told[: len(steps)])[:, places]
