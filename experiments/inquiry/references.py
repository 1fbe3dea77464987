"""How well an inquiry can be played: reference policies, and their accuracy."""

import random
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .inquiry import Inquiry

Policy = Callable[[Inquiry, NDArray[np.float64], random.Random], int]
"""Inquiry, belief `[H]`, generator -> index of the next question."""


class Play(NamedTuple):
    """Games of a policy, which answers with a hypothesis that is most likely."""

    accuracy: float
    """Share of the secrets that it found."""
    standard_error: float
    """Its standard error over the games."""
    entropy: float
    """Mean entropy of the last belief, as a share of log H."""


def greedy_question(inquiry: Inquiry, belief: NDArray[np.float64], rng: random.Random) -> int:
    """Choose a question whose reply is the least certain, which tells most of the secret.

    With an error rate that is the same for all questions, the entropy of the reply is the
    information that it gives, up to a constant.
    """
    num_questions, num_replies = len(inquiry.questions), len(inquiry.replies)
    cells = inquiry.table + num_replies * np.arange(num_questions)[:, None]
    weights = np.broadcast_to(belief, cells.shape).ravel()
    p = np.bincount(cells.ravel(), weights, num_questions * num_replies)
    p = p.reshape(num_questions, num_replies)
    rate = inquiry.error_rate
    p = p * (1 - rate) + (1 - p) * rate / max(1, num_replies - 1)
    entropies = -(p * np.log(p, where=p > 0, out=np.zeros_like(p))).sum(axis=1)
    best = np.flatnonzero(entropies >= entropies.max() - 1e-9)
    likely = belief[best] if inquiry.questions == inquiry.hypotheses else np.ones(len(best))
    return int(best[likely.argmax()])  # of equal guesses one that may be the secret


def random_question(inquiry: Inquiry, belief: NDArray[np.float64], rng: random.Random) -> int:
    """Choose any question."""
    return rng.randrange(len(inquiry.questions))


def reference_play(
    inquiry: Inquiry, policy: Policy, num_questions: int, *, games: int, seed: int = 0
) -> Play:
    """Play games in which a policy asks `num_questions` times and then answers.

    Without errors of replies, the accuracy is that of the expectation: 1 over the number of
    hypotheses left. Secrets are evenly spread.

    Args:
        inquiry: The game.
        policy: What is asked.
        num_questions: Questions in each game.
        games: Number of games.
        seed: Seed of secrets, replies and the policy.
    """
    rng = random.Random(seed)
    asked: dict[bytes, int] = {}
    hits, entropies = [], []
    for n in range(games):
        secret = inquiry.hypotheses[n * len(inquiry.hypotheses) // games]
        belief = np.full(len(inquiry.hypotheses), 1 / len(inquiry.hypotheses))
        for _ in range(num_questions):
            key = belief.tobytes()
            if policy is not greedy_question or key not in asked:
                asked[key] = policy(inquiry, belief, rng)
            question = inquiry.questions[asked[key]]
            reply = inquiry.reply(question, secret, rng)
            belief = belief * np.exp(inquiry.log_likelihoods(question, reply))
            belief /= belief.sum()
        best = np.flatnonzero(belief >= belief.max() - 1e-12)
        hits.append((inquiry.places[secret] in best) / len(best))
        p = belief[belief > 0]
        entropies.append(-(p * np.log(p)).sum() / np.log(len(belief)))
    error = float(np.std(hits, ddof=1) / len(hits) ** 0.5) if len(hits) > 1 else 0.0
    return Play(float(np.mean(hits)), error, float(np.mean(entropies)))


def optimal_number_accuracy(count: int, num_questions: int) -> float:
    """Return the accuracy of the Bayes-optimal policy of `number(count)` without errors.

    k replies tell at most 2^k cases apart, each of which finds one of its numbers; questions that
    halve reach it.
    """
    return min(1.0, 2**num_questions / count)
