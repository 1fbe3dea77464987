"""What a model's outputs on a benchmark amount to.

Rewards are 1.0 for a right output and 0.0 for a wrong one. Problems weigh the same, however many
outputs each of them has.
"""

from collections.abc import Sequence
from math import comb, sqrt
from statistics import fmean, stdev
from typing import NamedTuple


class Estimate(NamedTuple):
    """A mean over problems and its standard error."""

    mean: float
    """Of the values."""
    standard_error: float | None
    """None with one problem: its spread over problems is unknown."""


def mean_and_standard_error(values: Sequence[float]) -> Estimate:
    """Return the mean of independent values, and `std / sqrt(N)` with `N - 1` degrees of freedom.

    Example:
    ```python
    >>> mean_and_standard_error([0.0, 1.0]), mean_and_standard_error([1.0])
    (Estimate(mean=0.5, standard_error=0.5), Estimate(mean=1.0, standard_error=None))

    ```
    """
    error = stdev(values) / sqrt(len(values)) if len(values) > 1 else None
    return Estimate(fmean(values), error)


def clopper_pearson(count: int, number: int) -> tuple[float, float]:
    """Return the interval of 95 % of Clopper and Pearson (1934) of a share, `count / number`.

    Example:
    ```python
    >>> low, high = clopper_pearson(0, 10)
    >>> low, round(high, 3)
    (0.0, 0.308)

    ```
    """
    from scipy.stats import binomtest

    ends = binomtest(count, number).proportion_ci(0.95, method="exact")
    return float(ends.low), float(ends.high)


class Difference(NamedTuple):
    """The mean of paired differences, with its interval of 95 %.

    Attributes:
        mean: First less second.
        standard_error: Of the mean.
        low: Lower end of the interval.
        high: Upper end.
    """

    mean: float
    standard_error: float
    low: float
    high: float


def paired_difference(values: Sequence[float], others: Sequence[float]) -> Difference:
    """Compare two arms that share their seeds (or problems), one value of each for each.

    The interval is Student's, from the spread of the differences.

    Raises:
        ValueError: There are fewer than two pairs.

    Example:
    ```python
    >>> paired_difference([3.0, 5.0], [1.0, 4.0])
    Difference(mean=1.5, standard_error=0.5, low=-4.85..., high=7.85...)

    ```
    """
    differences = [a - b for a, b in zip(values, others, strict=True)]
    if len(differences) < 2:
        raise ValueError(
            f"values must be of at least 2 pairs, got {len(differences)}: one has no spread."
        )
    mean, error = mean_and_standard_error(differences)
    assert error is not None
    return Difference(mean, error, *interval(mean, error, len(differences)))


def interval(mean: float, standard_error: float, number: int) -> tuple[float, float]:
    """Return Student's interval of 95 % of a mean over so many independent values, at least 2.

    Example:
    ```python
    >>> low, high = interval(0.5, 0.1, number=8)
    >>> round(low, 3), round(high, 3)
    (0.264, 0.736)

    ```
    """
    from scipy.stats import t

    reach = float(t.ppf(0.975, number - 1)) * standard_error
    return mean - reach, mean + reach


def share_interval(estimate: Estimate, number: int) -> tuple[float, float] | None:
    """Return the interval of 95 % of a mean share over problems.

    It is Student's, cut off at 0 and 1. Where all or no outputs are right, which leaves no spread,
    it is that of Clopper and Pearson for so many problems.

    Args:
        estimate: The mean, in [0, 1], and its standard error.
        number: Problems.

    Returns:
        Its ends; None for a single problem with right and wrong outputs.

    Example:
    ```python
    >>> low, high = share_interval(Estimate(1.0, 0.0), number=30)
    >>> round(low, 3), high
    (0.884, 1.0)

    ```
    """
    if estimate.mean in (0, 1):
        return clopper_pearson(round(estimate.mean * number), number)
    if estimate.standard_error is None:
        return None
    low, high = interval(estimate.mean, estimate.standard_error, number)
    return max(low, 0.0), min(high, 1.0)


def accuracy(rewards: Sequence[Sequence[float]]) -> Estimate:
    """Average rewards, with the standard error over problems.

    Samples of one problem are not independent: the standard error is that of the problems' means.

    Args:
        rewards: Rewards of each problem's outputs, at least one problem and one output of each.

    Raises:
        ValueError: There is no problem, or one without outputs.

    Example:
    ```python
    >>> accuracy([[1.0, 1.0], [0.0, 0.0]])
    Estimate(mean=0.5, standard_error=0.5)

    ```
    """
    _refuse_empty(rewards)
    return mean_and_standard_error([fmean(outputs) for outputs in rewards])


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Return the probability that at least one of `k` outputs is right, drawn without replacement:
    `1 - C(n - c, k) / C(n, k)` (arXiv 2107.03374), 0 for `k = 0`.

    Args:
        num_samples: Outputs of the problem, n >= 0.
        num_correct: Right ones among them, 0 <= c <= n.
        k: Outputs that are drawn, 0 <= k <= n.

    Raises:
        ValueError: `num_correct` or `k` is out of range: more than there are cannot be drawn.

    Example:
    ```python
    >>> pass_at_k(num_samples=6, num_correct=1, k=3)
    0.5

    ```
    """
    refuse_out_of_range(num_samples, num_correct=num_correct, k=k)
    return 1 - comb(num_samples - num_correct, k) / comb(num_samples, k)


def pass_at_k_with_greedy(greedy: float, samples: Sequence[float], k: int) -> float:
    """Return pass@k where the greedy output is one of the `k`, and the others are samples:
    1 if it is right, else `1 - C(n - c, k - 1) / C(n, k - 1)`.

    Args:
        greedy: Reward of the greedy output.
        samples: Rewards of the samples.
        k: Outputs, the greedy one included, 1 <= k <= n + 1.

    Raises:
        ValueError: `k` is out of range.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}: the greedy output is one of them.")
    among_samples = pass_at_k(len(samples), _num_correct(samples), k - 1)
    return 1.0 if greedy else among_samples


def mean_pass_at_k(
    rewards: Sequence[Sequence[float]], k: int, *, greedy: Sequence[float] | None = None
) -> Estimate:
    """Average pass@k over the problems of a benchmark.

    Args:
        rewards: Rewards of each problem's samples.
        k: Outputs.
        greedy: Reward of each problem's greedy output, which then is one of the `k`.

    Raises:
        ValueError: There is no problem, or one with too few samples.
    """
    if greedy is None:
        return accuracy([[pass_at_k(len(r), _num_correct(r), k)] for r in rewards])
    pairs = zip(greedy, rewards, strict=True)
    return accuracy([[pass_at_k_with_greedy(g, r, k)] for g, r in pairs])


def mean_total_tokens(
    tokens: Sequence[Sequence[int]], k: int, *, greedy: Sequence[int] | None = None
) -> float:
    """Average the tokens that `k` outputs of a problem take together: `k` times the mean sample,
    or the greedy output and `k - 1` times the mean sample.

    Args:
        tokens: Tokens of each problem's samples. Without any sample only the greedy output counts,
            and `k` must be 1.
        k: Outputs, at least 1.
        greedy: Tokens of each problem's greedy output, which then is one of the `k`.

    Raises:
        ValueError: There is no problem, or one without outputs to draw.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}: there is no output otherwise.")
    if greedy is None:
        _refuse_empty(tokens)
        return fmean(k * fmean(samples) for samples in tokens)
    if k == 1:
        return fmean(greedy)
    _refuse_empty(tokens)
    pairs = zip(greedy, tokens, strict=True)
    return fmean(first + (k - 1) * fmean(samples) for first, samples in pairs)


def refuse_out_of_range(num_samples: int, **values: int) -> None:
    """Refuse numbers of outputs that are below 0, or above the number of samples.

    Args:
        num_samples: Outputs that there are.
        **values: Numbers of outputs by name.
    """
    for name, value in values.items():
        if not 0 <= value <= num_samples:
            raise ValueError(
                f"{name} must lie between 0 and num_samples = {num_samples}, got {value}: draw "
                "fewer, or sample more."
            )


def share(flags: Sequence[bool]) -> float:
    """Return the share of outputs with a property, such as cut off; 0 without outputs."""
    return sum(flags) / max(len(flags), 1)


def _num_correct(rewards: Sequence[float]) -> int:
    return sum(reward == 1 for reward in rewards)


def _refuse_empty(outputs: Sequence[Sequence[float]]) -> None:
    if not outputs or not all(outputs):
        raise ValueError(
            f"there must be at least one problem, and one output of each, got {len(outputs)} "
            f"problems, {sum(not one for one in outputs)} without outputs: a mean of nothing is "
            "undefined."
        )
