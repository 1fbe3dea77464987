"""Accuracy and pass@k of a model on a benchmark, with standard errors and intervals.

The reward of an output is 1.0 if it is right, else 0.0. All problems have the same weight, however
many outputs each of them has.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import comb, exp, inf, lgamma, log1p, pi, sqrt
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple

from mpmath import betainc


class Estimate(NamedTuple):
    """A mean over problems, and its standard error; None for one problem."""

    mean: float
    standard_error: float | None


def mean_and_standard_error(values: Sequence[float]) -> Estimate:
    """Return the mean of independent values and its error, `std / sqrt(N)` with `ddof=1`."""
    error = stdev(values) / sqrt(len(values)) if len(values) > 1 else None
    return Estimate(fmean(values), error)


def accuracy(rewards: Sequence[Sequence[float]]) -> Estimate:
    """Return the mean reward over problems, from the rewards of each problem's outputs.

    Samples of one problem are not independent: the standard error is over the problems' means.
    """
    return mean_and_standard_error([fmean(outputs) for outputs in rewards])


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Return the probability that at least one of `k` outputs drawn without replacement is right.

    It is `1 - C(n - c, k) / C(n, k)` for c right ones of n samples (arXiv 2107.03374), and 0 for
    `k = 0`. Counts are between 0 and n.

    Example:
        >>> pass_at_k(num_samples=6, num_correct=1, k=3)
        0.5
    """
    return 1 - comb(num_samples - num_correct, k) / comb(num_samples, k)


def mean_pass_at_k(rewards: Sequence[Sequence[float]], k: int) -> Estimate:
    """Return the mean of pass@k over problems, from the rewards of each problem's samples."""
    counts = [(len(outputs), sum(reward == 1 for reward in outputs)) for outputs in rewards]
    return accuracy([[pass_at_k(*count, k)] for count in counts])


def interval(mean: float, standard_error: float, number: int) -> tuple[float, float]:
    """Return Student's 95 % interval of a mean over `number` independent values, at least 2."""
    reach = student_quantile(0.975, number - 1) * standard_error
    return mean - reach, mean + reach


def share_interval(estimate: Estimate, number: int) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean share in [0, 1] over `number` problems.

    It is Student's interval, cut off at 0 and 1. If all or no outputs are right, there is no spread
    over problems, and it is Clopper and Pearson's (1934). It is None for a single problem with
    right and wrong outputs.
    """
    if estimate.mean in (0, 1):
        end = 0.025 ** (1 / number)  # with such a share, n of n are right with 2.5 %
        return (end, 1.0) if estimate.mean else (0.0, 1 - end)
    if estimate.standard_error is None:
        return None
    low, high = interval(estimate.mean, estimate.standard_error, number)
    return max(low, 0.0), min(high, 1.0)


@lru_cache(1024)
def student_quantile(probability: float, df: float) -> float:
    """Return where Student's distribution function reaches a probability above one half.

    By Newton's method from the normal quantile, which lies below: the function is concave there, so
    that no step goes too far. The degrees of freedom are any positive number.
    """
    scale = exp(lgamma((df + 1) / 2) - lgamma(df / 2)) / sqrt(df * pi)
    t = NormalDist().inv_cdf(probability)
    for _ in range(1100):  # far below one degree of freedom each step only doubles t
        density = scale * exp(-(df + 1) / 2 * log1p(t * t / df))
        if not density:
            return inf
        step = (student_tail(t, df) - (1 - probability)) / density
        t += step
        if abs(step) < 1e-13 * t:
            break
    return t


def student_tail(t: float, df: float) -> float:
    """Return the probability that Student's variable exceeds t >= 0."""
    return float(betainc(df / 2, 0.5, 0, df / (df + t * t), regularized=True)) / 2
