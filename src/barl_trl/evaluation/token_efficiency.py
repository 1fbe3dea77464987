"""Pass@k against the tokens that k responses cost."""

from collections.abc import Sequence
from math import comb
from statistics import fmean, stdev
from typing import NamedTuple

from .responses import Problems


class EfficiencyPoint(NamedTuple):
    """What k responses per problem achieve and cost, as means over problems.

    Attributes:
        k: Number of responses.
        accuracy: Pass@k, in [0, 1].
        standard_error: Of the accuracy, over the problems; None for a single one.
        tokens: Total tokens of the k responses.
    """

    k: int
    accuracy: float
    standard_error: float | None
    tokens: float


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    r"""Probability that k of n samples, drawn without replacement, hold a correct one (arXiv
    2107.03374):

    $$1 - \binom{n - c}{k} / \binom{n}{k}$$

    the unbiased estimate of pass@k. No sample holds none: 0 for k = 0.

    Args:
        num_samples: n, the samples of the problem.
        num_correct: c, how many of them are correct.
        k: At most n.

    Raises:
        ValueError: There are fewer than k samples.

    Example:
        >>> pass_at_k(4, 1, 1), pass_at_k(4, 1, 2), pass_at_k(4, 3, 2)
        (0.25, 0.5, 1.0)
    """
    if not 0 <= k <= num_samples:
        raise ValueError(f"k must be in [0, {num_samples}], the number of samples, got {k}.")
    return 1 - comb(num_samples - num_correct, k) / comb(num_samples, k)


def pass_at_k_with_greedy(greedy: float, samples: Sequence[float], k: int) -> float:
    """Pass@k where the greedy response is one of the k, and the others are drawn as in
    [`pass_at_k`].

    Args:
        greedy: Reward of the greedy response.
        samples: Rewards of the samples.
        k: From 1 to one more than there are samples.

    Example:
        >>> pass_at_k_with_greedy(0.0, [1.0, 0.0, 0.0, 0.0], 2)
        0.25
    """
    drawn = pass_at_k(len(samples), sum(reward == 1 for reward in samples), k - 1)
    return 1.0 if greedy == 1 else drawn


def mean_and_standard_error(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean of independent values, and its standard error; None for a single value.

    Example:
        >>> mean_and_standard_error([0.0, 1.0]), mean_and_standard_error([1.0])
        ((0.5, 0.5), (1.0, None))
    """
    error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
    return fmean(values), error


def efficiency_curve(
    sampled: Problems, greedy: Problems | None = None, *, max_k: int = 6
) -> list[EfficiencyPoint]:
    """Pass@k and tokens for k = 1 … `max_k` (the paper's figures on token efficiency).

    The k responses are drawn among a problem's samples. With `greedy` (the paper's main text), the
    greedy one and k - 1 samples; k = 1 is then greedy decoding. Both quantities are expectations
    over the draw, hence exact: no draw is made.

    Args:
        sampled: Samples of each problem.
        greedy: Greedy response to each problem.
        max_k: Largest k.

    Raises:
        ValueError: A problem has too few samples, or not the one greedy response.
    """
    _check(sampled, greedy, max_k)
    points = []
    for k in range(1, max_k + 1):
        accuracies, tokens = [], []
        for problem_id, samples in sampled.items():
            rewards = [sample["reward"] for sample in samples]
            mean_tokens = fmean(sample["tokens"] for sample in samples)
            if greedy is None:
                accuracies.append(pass_at_k(len(rewards), rewards.count(1), k))
                tokens.append(k * mean_tokens)
            else:
                [first] = greedy[problem_id]
                accuracies.append(pass_at_k_with_greedy(first["reward"], rewards, k))
                tokens.append(first["tokens"] + (k - 1) * mean_tokens)
        points.append(EfficiencyPoint(k, *mean_and_standard_error(accuracies), fmean(tokens)))
    return points


def _check(sampled: Problems, greedy: Problems | None, max_k: int) -> None:
    fewest = min(map(len, sampled.values()))
    most = fewest if greedy is None else fewest + 1
    if not 1 <= max_k <= most:
        raise ValueError(
            f"max_k must be in [1, {most}], got {max_k}: a problem has {fewest} samples"
            f"{' and a greedy response' if greedy else ''}."
        )
    if greedy is not None and (
        greedy.keys() != sampled.keys() or any(len(responses) != 1 for responses in greedy.values())
    ):
        raise ValueError(
            f"greedy must hold one response to each of the {len(sampled)} sampled problems, got "
            f"{sum(map(len, greedy.values()))} to {len(greedy)}: evaluate both on the same ones."
        )
