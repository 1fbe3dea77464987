"""The games as environments for TRL: each has a tool that asks, and says what a reply means."""

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barl_trl.graders import extract_answer
from barl_trl.synthetic.number import NUMBER_MODEL_DIR

from .inquiry import ASSETS, Inquiry, animals, code, number, words

_NO_QUESTION = "That cannot be asked."
"""The reply to what is no question of the inquiry. It says nothing of the secret."""
INFORMATION_WEIGHT = 0.3
"""Sum of the rewards of turns of a game whose questions tell everything."""


class InquiryEnvironment:
    """Play a game of an inquiry. A subclass has the tool, whose name and text the model sees.

    Attributes:
        secret: What is to be found.
        num_questions: Number of questions asked so far.
        belief: What is known so far: the probability of each hypothesis of `assumed`, `[H]`.

    Args:
        inquiry: The game; None: the subclass's own.
        assumed: What the belief takes for the game, such as one with another error rate; None: the
            same. It has the same hypotheses.
        redraws: Whether each rollout has a secret of its own. Then the row's solution is not the
            truth, and only credits that need no truth can be used.
    """

    inquiry: Inquiry
    """The game."""

    def __init__(
        self,
        inquiry: Inquiry | None = None,
        *,
        assumed: Inquiry | None = None,
        redraws: bool = False,
    ):
        if inquiry is not None:
            self.inquiry = inquiry
        self.assumed = assumed or self.inquiry
        if self.assumed.hypotheses != self.inquiry.hypotheses:
            raise ValueError("assumed must have the hypotheses of the game that is played.")
        self.redraws = redraws

    def reset(self, solution: str, **row: Any) -> None:
        """Begin a game: TRL passes the columns of the row."""
        self.secret = random.choice(self.inquiry.hypotheses) if self.redraws else solution
        self.num_questions = 0
        self.belief = np.full(len(self.inquiry.hypotheses), 1 / len(self.inquiry.hypotheses))

    def _ask(self, question: str) -> str:
        self.num_questions += 1
        if not self.inquiry.is_question(question):
            return _NO_QUESTION
        reply = self.inquiry.reply(question, self.secret)
        self._learn(question, reply)
        return reply

    def _learn(self, question: str, reply: str) -> None:
        likelihoods = np.exp(self.assumed.log_likelihoods(question, reply))
        if self.belief @ likelihoods > 0:  # else the assumed game says that this cannot be
            self.belief = self.belief * likelihoods / (self.belief @ likelihoods)

    def _observation_log_likelihoods(
        self, hypotheses: Sequence[str], steps: Sequence[Any]
    ) -> NDArray[np.float64]:
        """Return the log-likelihood of each step's replies under each hypothesis, in nats."""
        places = [self.assumed.places[text] for text in hypotheses]
        output = np.zeros((len(steps), len(hypotheses)))
        for row, messages in zip(output, steps, strict=True):
            for question, reply in questions_and_replies(messages):
                row += self.assumed.log_likelihoods(question, reply)[places]
        return output


def questions_and_replies(messages: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the questions of a turn, each with its reply."""
    calls = [call["function"] for m in messages for call in m.get("tool_calls") or ()]
    replies = [m["content"] for m in messages if m["role"] == "tool"]
    for call, reply in zip(calls, replies, strict=False):  # the last may not have fitted
        asked = [str(value) for value in call["arguments"].values()]
        if len(asked) == 1:
            yield asked[0], reply


class NumberGame(InquiryEnvironment):
    """Which number is it? Asks whether it is at least another one."""

    inquiry = number()
    """The game that is played where no other is given."""

    def at_least(self, number: int) -> str:
        """Ask whether the secret is at least a number.

        Args:
            number: The number.
        """
        return self._ask(str(number))


class Number64Game(InquiryEnvironment):
    """The same with the numbers from 1 to 64."""

    inquiry = number(64)
    """The game that is played where no other is given."""

    at_least = NumberGame.at_least


class RewardedNumberGame(NumberGame):
    """The same with the numbers from 1 to 16; each question earns what its reply tells."""

    def reset(self, solution: str, **row: Any) -> None:
        """Begin a game: TRL passes the columns of the row."""
        super().reset(solution, **row)
        self.turn_rewards: list[float] = []

    at_least = NumberGame.at_least

    def _ask(self, question: str) -> str:
        before = self.belief
        reply = super()._ask(question)
        self.turn_rewards.append(information_reward(before, self.belief))
        return reply


class CodeGame(InquiryEnvironment):
    """Which code of coloured pegs is it? Guesses codes."""

    inquiry = code()
    """The game that is played where no other is given."""

    def guess(self, code: str) -> str:
        """Guess the code, and learn how many pegs are right.

        Args:
            code: The code.
        """
        return self._ask(code)


class WordGame(InquiryEnvironment):
    """Which word is it? Guesses words."""

    inquiry = words()
    """The game that is played where no other is given."""

    def guess(self, word: str) -> str:
        """Guess the word, and learn a mark for each letter.

        Args:
            word: The word.
        """
        return self._ask(word)


class AnimalGame(InquiryEnvironment):
    """Which animal is it? Asks questions whose replies are sometimes wrong."""

    inquiry = animals()
    """The game that is played where no other is given."""

    def ask(self, question: str) -> str:
        """Ask a question about the animal.

        Args:
            question: The question.
        """
        return self._ask(question)


GAMES: dict[str, type[InquiryEnvironment]] = {
    "number": NumberGame,
    "number64": Number64Game,
    "number-turns": RewardedNumberGame,
    "code": CodeGame,
    "words": WordGame,
    "animals": AnimalGame,
}
"""The games by name."""


def model_dir(game: str) -> Path:
    """Return the folder of a game's model and tokenizer, for `from_pretrained`."""
    if game in ("number", "number-turns"):
        return NUMBER_MODEL_DIR
    return ASSETS / f"tiny-{game.removesuffix('-belief')}"


def information_reward(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    """Return the reward of a turn that changed a belief, `[H]`: the entropy lost, of log H.

    All questions of a game together earn at most `INFORMATION_WEIGHT`.
    """
    (lost,) = np.diff([scaled_entropies(belief[None])[0] for belief in (after, before)])
    return INFORMATION_WEIGHT * float(lost)


def scaled_entropies(beliefs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the entropy of each belief of `[n, H]` as a share of log H."""
    logs = np.log(beliefs, where=beliefs > 0, out=np.zeros_like(beliefs))
    return -(beliefs * logs).sum(axis=1) / np.log(beliefs.shape[1])


def what_is_left(inquiry: Inquiry) -> Callable[[list[Any]], tuple[bool, ...]]:
    """Return the state key of a game without wrong replies: the secrets that are possible."""
    game = InquiryEnvironment(inquiry)

    def state_key(steps: list[Any]) -> tuple[bool, ...]:
        logs = game._observation_log_likelihoods(inquiry.hypotheses, steps)
        return tuple(np.isfinite(logs.sum(axis=0)).tolist())

    return state_key


def found_secret(
    completions: Sequence[Any],
    environments: Sequence[InquiryEnvironment],
    log_metric: Callable[[str, float], None] | None = None,
    **kwargs: Any,
) -> list[float]:
    """Reward 1.0 for a last message whose boxed text is the secret, 0.0 for any other.

    Args:
        completions: The messages of each rollout.
        environments: Their games. One may have its own `answer`.
        log_metric: Logs means over the rollouts: `questions` in a game; `unanswered`, the share
            without a boxed text; `belief_entropy` at the answer, as a share of log H;
            `determined`, the share that answers what alone is left (belief above .99); `log_score`,
            the logarithm of the belief in the secret, in nats. The trainer provides it.
        **kwargs: The columns of the data set, which are not used.
    """
    pairs = zip(environments, completions, strict=True)
    answers = [getattr(one, "answer", None) or _answer(messages[-1]) for one, messages in pairs]
    if log_metric is not None:
        for name, values in _measures(answers, environments).items():
            log_metric(name, float(np.mean(values)))
    return [
        float(answer == environment.secret)
        for answer, environment in zip(answers, environments, strict=True)
    ]


def _measures(
    answers: Sequence[str | None], environments: Sequence[InquiryEnvironment]
) -> dict[str, list[float]]:
    measures: dict[str, list[float]] = {
        "questions": [environment.num_questions for environment in environments],
        "unanswered": [answer is None for answer in answers],
    }
    beliefs = np.array([environment.belief for environment in environments])
    places = [environment.inquiry.places for environment in environments]
    measures["belief_entropy"] = [*scaled_entropies(beliefs)]
    measures["determined"] = [
        answer in of and belief[of[answer]] > 0.99
        for answer, of, belief in zip(answers, places, beliefs, strict=True)
    ]
    secrets = [of[environment.secret] for of, environment in zip(places, environments, strict=True)]
    in_secret = beliefs[np.arange(len(beliefs)), secrets]
    measures["log_score"] = [*np.log(np.maximum(in_secret, 1e-12))]
    return measures


def question_cost(price: float) -> Callable[..., list[float]]:
    """Return a reward function that takes a price for each question, in units of the reward.

    Mark it with [`~barl_trl.rewards.cost`], for it does not depend on what is true.
    """

    def costs(environments: Sequence[InquiryEnvironment], **kwargs: Any) -> list[float]:
        return [-price * environment.num_questions for environment in environments]

    return costs


def _answer(message: dict[str, Any]) -> str | None:
    """Return the boxed text of a last message; None if it is a call, or a reply."""
    is_answer = message["role"] == "assistant" and not message.get("tool_calls")
    return extract_answer(message.get("content") or "") if is_answer else None
