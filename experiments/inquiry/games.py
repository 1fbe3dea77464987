"""Games and conditions: what is found out, and what differs from the plain case."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from barl_trl.rewards import cost

from .environments import GAMES, InquiryEnvironment, found_secret, question_cost
from .guessing import GuessTheNumber, GuessWithBelief
from .inquiry import Inquiry, number


@dataclass(frozen=True)
class Budget:
    """How long a game is played and trained."""

    questions: int
    """Most questions in a rollout."""
    tokens: int
    """Most tokens of a rollout, with the replies."""
    steps: int
    """Optimizer steps, each on 64 rollouts of 8 prompts."""


GAMES |= {"guess": GuessTheNumber, "guess-belief": GuessWithBelief}

BUDGETS = {
    "number": Budget(questions=4, tokens=64, steps=200),
    "number64": Budget(questions=6, tokens=88, steps=200),
    "number-turns": Budget(questions=4, tokens=64, steps=200),
    "guess": Budget(questions=5, tokens=64, steps=64),
    "guess-belief": Budget(questions=5, tokens=64, steps=64),
    "code": Budget(questions=4, tokens=112, steps=200),
    "words": Budget(questions=4, tokens=160, steps=200),
    "animals": Budget(questions=8, tokens=112, steps=200),
}


@dataclass(frozen=True)
class Condition:
    """What differs from a fresh prompt with a fresh secret in every group.

    Attributes:
        title: What it is called in tables.
        num_prompts: Number of training prompts, which can be learned by heart; None: all differ.
        halves_secrets: Whether every second hypothesis is never a secret in training, and only
            these are in the test.
        redraws: Whether each rollout has a secret of its own.
        error_rate: Share of wrong replies; None: the game's own.
        assumed_error_rate: What the belief takes for it; None: the same.
        has_wrong_prior: Whether the belief takes the first half of the hypotheses for four times as
            likely as the others.
        price: Cost of a question, in units of the reward.
        length: How many times the game's optimizer steps are trained.
    """

    title: str
    num_prompts: int | None = None
    halves_secrets: bool = False
    redraws: bool = False
    error_rate: float | None = None
    assumed_error_rate: float | None = None
    has_wrong_prior: bool = False
    price: float = 0.0
    length: int = 1


CONDITIONS = {
    "many": Condition("a new prompt and secret in each group"),
    "long": Condition("the same, four times as long", length=4),
    "many-redrawn": Condition("the same, each rollout has its own secret", redraws=True),
    "prompts-32": Condition("32 prompts", num_prompts=32),
    "prompts-32-redrawn": Condition(
        "32 prompts, each rollout has its own secret", num_prompts=32, redraws=True
    ),
    "prompts-128": Condition("128 prompts", num_prompts=128),
    "new-secrets": Condition("secrets of the test never trained on", halves_secrets=True),
    "noise": Condition("one reply of ten is wrong", error_rate=0.1),
    "noise-misjudged": Condition(
        "one reply of ten is wrong, the belief takes one of a hundred",
        error_rate=0.1,
        assumed_error_rate=0.01,
    ),
    "wrong-prior": Condition("the belief has a wrong prior", has_wrong_prior=True),
    "price": Condition("a question costs .05", price=0.05),
}
"""The conditions by name; those with noise are for the game of numbers."""

TEST_SEED = 10_000


@dataclass(frozen=True)
class Task:
    """What a training gets: rows, environments and rewards."""

    rows: list[dict[str, Any]]
    test_rows: list[dict[str, Any]]
    environment: Callable[[], InquiryEnvironment]
    rewards: list[Callable[..., Any]]


def make_task(game: str, condition: Condition, *, seed: int, count: int, tests: int) -> Task:
    """Return `count` rows for training with one seed, and `tests` rows whose prompts are new."""
    cls = GAMES[game]
    inquiry = played = cls.inquiry
    assumed: Inquiry | None = None
    if condition.error_rate is not None:
        size = len(inquiry.hypotheses)
        played = number(size, error_rate=condition.error_rate)
        if condition.assumed_error_rate is not None:
            assumed = number(size, error_rate=condition.assumed_error_rate)
    even, odd = inquiry.hypotheses[::2], inquiry.hypotheses[1::2]
    rows = played.rows(
        count,
        seed=seed,
        num_prompts=condition.num_prompts,
        secrets=even if condition.halves_secrets else None,
    )
    test_rows = played.rows(
        tests, seed=TEST_SEED + seed, secrets=odd if condition.halves_secrets else None
    )
    if condition.has_wrong_prior:
        half = len(inquiry.hypotheses) // 2
        prior = [4.0 if n < half else 1.0 for n in range(len(inquiry.hypotheses))]
        rows = [row | {"prior": prior} for row in rows]
    rewards: list[Callable[..., Any]] = [found_secret]
    if condition.price:
        rewards.append(cost(question_cost(condition.price)))
    environment = partial(cls, played, assumed=assumed, redraws=condition.redraws)
    return Task(rows, test_rows, environment, rewards)
