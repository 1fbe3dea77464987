r"""The demo's task without language: an explorer with six parameters and beliefs of its own.

A problem offers n candidates, one of which solves it: candidate 0, which the explorer does not
know. As the chains in [`search`][barl_trl.synthetic.search] do, it tries a candidate a line until
it has found the solution or gives up, and then answers:

| decision | probability |
|---|---|
| to give up after 1, 2, 3, 4 or more failures | $\sigma(\theta_2) \dots \sigma(\theta_5)$ |
| the candidate to try | $\propto e^{\theta_0}$ if it was tried before, else 1 |
| the candidate to guess | $\propto e^{\theta_1}$ if it was tried before, else 1 |

The plausibility of an answer is the probability with which it would be guessed. A step is a line.
A rollout that goes on after its last try is cut off within the next line, as a chain of tokens is.
Its decision to go on counts in the gradient, but leads to nothing.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

INITIAL_PARAMETERS = np.log([0.6, 0.6, 0.05 / 0.95, 0.05 / 0.95, 0.6 / 0.4, 0.6 / 0.4])
"""About what the tiny model does before training."""

LINE_TOKENS = 12
"""Tokens of a line that tries a candidate."""
ANSWER_TOKENS = 5
"""Tokens of an answer, of which the last one ends the turn, and of a line that is cut off."""

_FOUND, _ANSWERED = 0.99, 0.985  # plausibilities: solution after "yes", answer after itself


@dataclass(frozen=True)
class World:
    """A distribution over problems, and budgets.

    Attributes:
        candidates: Numbers of candidates, all equally frequent.
        tries: Most tries in training.
        overconfidence: Nats that a favourite has more than the others in every guess. The favourite
            is drawn for each prompt from all candidates, so it is right no more often than they.
        evaluation_tries: Most tries in evaluation.
    """

    candidates: tuple[int, ...] = (7,)
    tries: int = 10
    overconfidence: float = 0.0
    evaluation_tries: int = 30


WORLDS = {
    "standard": World(),
    "confident": World(overconfidence=3.0),
    "cut_off": World(candidates=(11,), tries=5),
    "mixed": World(candidates=(2, 4, 7, 11, 16), tries=18),
}


class Rollouts(NamedTuple):
    """B rollouts of whole groups, at most T steps each; padding is 0."""

    groups: Int[np.ndarray, " batch"]
    """Number of each rollout's prompt; rollouts of a prompt are consecutive."""
    answers: Int[np.ndarray, " batch"]
    """The candidate that is answered; -1 where the rollout was cut off."""
    step_tokens: Int[np.ndarray, "batch step"]
    """Tokens of each step, without the one that ends the turn."""
    scores: Float[np.ndarray, "batch step parameter"]
    """Derivative of the log-probability of each step's decisions with respect to the parameters."""
    guesses: Float[np.ndarray, "batch state candidate"]
    """Probability of each candidate in a guess at each state: their plausibilities."""

    @property
    def outcomes(self) -> Float[np.ndarray, " batch"]:
        """1 where the answer is right, else 0."""
        return (self.answers == 0).astype(float)

    @property
    def is_cut_off(self) -> Bool[np.ndarray, " batch"]:
        """Whether each rollout has no answer."""
        return self.answers < 0

    @property
    def num_tokens(self) -> Int[np.ndarray, " batch"]:
        """Tokens of each rollout, with the one that ends the turn."""
        return self.step_tokens.sum(axis=1) + ~self.is_cut_off


def simulate(
    parameters: Float[np.ndarray, " parameter"],
    world: World,
    num_prompts: int,
    group_size: int,
    rng: np.random.Generator,
    *,
    tries: int | None = None,
) -> Rollouts:
    """Sample rollouts.

    The same generator gives the same problems, and the same luck in each step, to all parameters.

    Args:
        parameters: The policy's six parameters.
        world: Distribution of the problems, and budgets.
        num_prompts: Number of problems.
        group_size: Rollouts of each problem.
        rng: Source of all randomness.
        tries: Most tries; None: those of training.
    """
    tries = world.tries if tries is None else tries
    counts = rng.choice(world.candidates, num_prompts)
    favourites = rng.integers(0, counts)
    groups = np.arange(num_prompts).repeat(group_size)
    luck = rng.random((tries + 1, 2, len(groups)))
    candidates = np.arange(max(world.candidates))
    prior = np.where(candidates < counts[:, None], 0.0, -math.inf)
    prior = (prior + world.overconfidence * (candidates == favourites[:, None]))[groups]

    tried = np.zeros(prior.shape, dtype=bool)
    answers = np.full(len(groups), -1)
    step_tokens = np.zeros((len(groups), tries + 1), dtype=int)
    scores = np.zeros((len(groups), tries + 1, len(parameters)))
    guesses = np.zeros((len(groups), tries + 2, len(candidates)))
    guesses[:, 0] = _guesses(parameters, prior, tried, answers)
    going = np.arange(len(groups))  # the rollouts that go on
    for t in range(tries + 1):
        ends, choice, scores[going, t] = _decide(
            parameters, t, guesses[going, t], tried[going], luck[t][:, going]
        )
        answers[going[ends]] = choice[ends]
        goes_on = ~ends & (t < tries)
        tried[going[goes_on], choice[goes_on]] = True
        step_tokens[going, t] = np.where(goes_on, LINE_TOKENS, ANSWER_TOKENS - ends)
        guesses[going, t + 1] = _guesses(parameters, prior[going], tried[going], answers[going])
        going = going[goes_on]
    longest = (step_tokens > 0).sum(axis=1).max()
    kept = step_tokens[:, :longest], scores[:, :longest], guesses[:, : longest + 1]
    return Rollouts(groups, answers, *kept)


def _decide(
    parameters: Float[np.ndarray, " parameter"],
    t: int,
    guess: Float[np.ndarray, "batch candidate"],
    tried: Bool[np.ndarray, "batch candidate"],
    luck: Float[np.ndarray, "2 batch"],
) -> tuple[
    Bool[np.ndarray, " batch"], Int[np.ndarray, " batch"], Float[np.ndarray, "batch parameter"]
]:
    """Return which rollouts answer at state t, the answered or tried candidates, and the scores."""
    rows, is_solved, exists = np.arange(len(tried)), tried[:, 0], guess > 0
    stage = min(max(t - 1, 0), 3)
    give_up = 1 / (1 + np.exp(-parameters[2 + stage])) if t else 0.0
    p_end = np.where(is_solved, 1.0, give_up)
    ends = luck[0] < p_end
    # who has found the solution answers it, and does not guess
    guess = np.where(is_solved[:, None], np.arange(guess.shape[1]) == 0, guess)
    attempt = exists * np.exp(parameters[0] * tried)
    options = np.where(ends[:, None], guess, attempt / attempt.sum(axis=1, keepdims=True))
    choice = (luck[1][:, None] > options.cumsum(axis=1)).sum(axis=1)
    choice = np.minimum(choice, exists.sum(axis=1) - 1)  # a sum may be 1 - 1e-16
    scores = np.zeros((len(rows), len(parameters)))
    scores[:, 2 + stage] = ends - p_end
    scores[rows, ends.astype(int)] = tried[rows, choice] - (options * tried).sum(axis=1)
    return ends, choice, scores


def _guesses(
    parameters: Float[np.ndarray, " parameter"],
    prior: Float[np.ndarray, "batch candidate"],
    tried: Bool[np.ndarray, "batch candidate"],
    answers: Int[np.ndarray, " batch"],
) -> Float[np.ndarray, "batch candidate"]:
    """Return the plausibility of each candidate.

    It is the probability of the candidate in a guess. Once a candidate was found to be the solution
    or was answered, its plausibility is nearly 1.
    """
    logits = prior + parameters[1] * tried
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    guess = weights / weights.sum(axis=1, keepdims=True)
    exists, is_answered = np.isfinite(prior), answers >= 0
    mass = np.where(is_answered, _ANSWERED, _FOUND)[:, None]
    rest = (1 - mass) / (exists.sum(axis=1, keepdims=True) - 1) * exists
    is_known = np.arange(prior.shape[1]) == np.maximum(answers, 0)[:, None]
    is_sure = is_answered | tried[:, 0]
    return np.where(is_sure[:, None], np.where(is_known, mass, rest), guess)
