r"""The game of numbers: an agent asks "is it at least x?" up to four times, and then answers.

    from barl_trl.synthetic.number import NUMBER_MODEL_DIR, NumberGame, found_secret, number_rows

The secret is a number from 1 to 16, so four questions that halve what is left always find it. The
game says what each reply rules out, for training with the task's belief (`belief="task"`,
`hypotheses_column="candidates"`). The model in `NUMBER_MODEL_DIR` plays in the right form and draws
the conclusions, but asks and stops at random.
"""

import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from ..graders import extract_answer

NUMBER_MODEL_DIR = Path(__file__).parents[1] / "assets" / "tiny-number"
"""Folder of the shipped model and tokenizer, for `from_pretrained`."""

COUNT = 16
"""Secrets are the numbers from 1 to this one."""

_NUMBERS = tuple(map(str, range(1, COUNT + 1)))
_GAMES = 10_000


def number_rows(count: int, *, seed: int) -> list[dict[str, Any]]:
    """Return data set rows `{"prompt", "solution", "candidates"}` with random secrets.

    Each prompt is one message that names its game by a number below 10,000, which says nothing of
    the secret. `candidates` are all secrets that are possible, for `hypotheses_column`.
    """
    rng, rows = random.Random(seed), []
    for _ in range(count):
        secret, game = rng.choice(_NUMBERS), rng.randrange(_GAMES)
        text = f"Game {game:04}. Which number from 1 to {COUNT} is it?"
        prompt = [{"role": "user", "content": text}]
        rows.append({"prompt": prompt, "solution": secret, "candidates": [*_NUMBERS]})
    return rows


def random_accuracy(num_questions: int) -> float:
    """Return how often one finds the secret who asks at random and draws every conclusion.

    q random questions of n - 1 leave `E[number of parts] / n = (1 + (n - 1)(1 - (1 - 1/(n - 1))^q))
    / n` of the secrets to be found, for each of the parts that they cut the numbers into gives one.

    >>> round(random_accuracy(1) * COUNT, 6)
    2.0
    """
    cuts = COUNT - 1
    return (1 + cuts * (1 - (1 - 1 / cuts) ** num_questions)) / COUNT


class NumberGame:
    """Which number is it? An environment for TRL, whose tool asks if it is at least another one.

    Attributes:
        secret: What is to be found.
        num_questions: Number of questions asked so far.
        least: The smallest number that the replies allow.
        most: The largest one.
    """

    def reset(self, solution: str, **row: Any) -> None:
        """Begin a game: TRL passes the columns of the row."""
        self.secret, self.num_questions = int(solution), 0
        self.least, self.most = 1, COUNT

    def at_least(self, number: int) -> str:
        """Ask whether the secret is at least a number.

        Args:
            number: The number.
        """
        self.num_questions += 1
        if str(number) not in _NUMBERS[1:]:
            return "That cannot be asked."
        if self.secret >= int(number):
            self.least = max(self.least, int(number))
            return "yes"
        self.most = min(self.most, int(number) - 1)
        return "no"

    def _observation_log_likelihoods(
        self, hypotheses: Sequence[str], steps: Sequence[Any]
    ) -> list[list[float]]:
        """Return 0, or -inf where a reply of the step rules the hypothesis out."""
        return [[_log_likelihood(int(text), messages) for text in hypotheses] for messages in steps]


def _log_likelihood(secret: int, messages: Sequence[dict[str, Any]]) -> float:
    """Return the log-likelihood of a turn's replies if this is the secret."""
    calls = [call["function"] for m in messages for call in m.get("tool_calls") or ()]
    replies = [m["content"] for m in messages if m["role"] == "tool"]
    for call, reply in zip(calls, replies, strict=False):  # the last may not have fitted
        asked = [str(value) for value in call["arguments"].values()]
        is_known = len(asked) == 1 and asked[0] in _NUMBERS[1:] and reply in ("yes", "no")
        if is_known and (secret >= int(asked[0])) != (reply == "yes"):
            return -math.inf
    return 0.0


def found_secret(
    completions: Sequence[Any],
    environments: Sequence[NumberGame],
    log_metric: Callable[[str, float], None] | None = None,
    **kwargs: Any,
) -> list[float]:
    """Reward 1.0 for a last message whose boxed text is the secret, 0.0 for any other.

    Args:
        completions: The messages of each rollout.
        environments: Their games.
        log_metric: Logs means over the rollouts: `questions` in a game; `unanswered`, the share
            without an answer; `belief_entropy` at the answer, as a share of that at the start;
            `determined`, the share whose answer is all that the replies leave. The trainer
            provides it.
        **kwargs: The columns of the data set, which are not used.
    """
    answers = [_answer(completion[-1]) for completion in completions]
    found = [a == str(game.secret) for a, game in zip(answers, environments, strict=True)]
    if log_metric is not None:
        left = [game.most - game.least + 1 for game in environments]
        log_metric("questions", fmean(game.num_questions for game in environments))
        log_metric("unanswered", fmean(answer is None for answer in answers))
        log_metric("belief_entropy", fmean(math.log(n) / math.log(COUNT) for n in left))
        pairs = zip(found, left, strict=True)
        log_metric("determined", fmean(is_found and n == 1 for is_found, n in pairs))
    return [float(is_found) for is_found in found]


def _answer(message: dict[str, Any]) -> str | None:
    """Return the boxed text of a last message; None if it is a call, or a reply."""
    is_answer = message["role"] == "assistant" and not message.get("tool_calls")
    return extract_answer(message.get("content") or "") if is_answer else None
