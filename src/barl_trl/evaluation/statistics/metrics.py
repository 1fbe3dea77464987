"""Accuracy and pass@k of a model on a benchmark, with standard errors and intervals.

The reward of an output is 1.0 if it is right, else 0.0. All problems have the same weight, however
many outputs each of them has.
"""

from collections.abc import Sequence
from math import comb, sqrt
from statistics import fmean, stdev
from typing import NamedTuple


class Estimate(NamedTuple):
    """A mean over problems.

    Attributes:
        mean: The mean.
        standard_error: Its standard error; None for one problem, whose spread is unknown.
    """

    mean: float
    standard_error: float | None


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
    """Return the 95 % interval of Clopper and Pearson (1934) for the share `count / number`."""
    from scipy.stats import binomtest

    ends = binomtest(count, number).proportion_ci(0.95, method="exact")
    return float(ends.low), float(ends.high)


def interval(mean: float, standard_error: float, number: int) -> tuple[float, float]:
    """Return Student's 95 % interval of a mean over `number` independent values, at least 2.

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
    """Return the 95 % interval of a mean share in [0, 1] over `number` problems.

    It is Student's interval, cut off at 0 and 1. If all or no outputs are right, there is no spread
    over problems, and it is Clopper and Pearson's. It is None for a single problem with right and
    wrong outputs.

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
    """Return the mean reward over problems, from the rewards of each problem's outputs.

    Samples of one problem are not independent. The standard error is therefore taken over the mean
    rewards of the problems.

    Raises:
        ValueError: There is no problem, or one without outputs.
    """
    if not rewards or not all(rewards):
        raise ValueError(
            f"there must be at least one problem, and one output of each, got {len(rewards)} "
            f"problems, {sum(not outputs for outputs in rewards)} without outputs: a mean of "
            "nothing is undefined."
        )
    return mean_and_standard_error([fmean(outputs) for outputs in rewards])


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Return the probability that at least one of `k` outputs drawn without replacement is right.

    It is `1 - C(n - c, k) / C(n, k)` for c right ones of n samples (arXiv 2107.03374), and 0 for
    `k = 0`.

    Raises:
        ValueError: `num_correct` or `k` is not between 0 and `num_samples`.

    Example:
    ```python
    >>> pass_at_k(num_samples=6, num_correct=1, k=3)
    0.5

    ```
    """
    for name, value in (("num_correct", num_correct), ("k", k)):
        if not 0 <= value <= num_samples:
            raise ValueError(
                f"{name} must lie between 0 and num_samples = {num_samples}, got {value}: draw "
                "fewer, or sample more."
            )
    return 1 - comb(num_samples - num_correct, k) / comb(num_samples, k)


def mean_pass_at_k(rewards: Sequence[Sequence[float]], k: int) -> Estimate:
    """Return the mean of pass@k over problems, from the rewards of each problem's samples.

    Raises:
        ValueError: There is no problem, or one with too few samples.
    """
    counts = [(len(outputs), sum(reward == 1 for reward in outputs)) for outputs in rewards]
    return accuracy([[pass_at_k(*count, k)] for count in counts])
