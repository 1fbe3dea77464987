"""G-Pass@k: how often a model is right again and again, not only once in k outputs."""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, comb

from .metrics import Estimate, accuracy, refuse_out_of_range


def g_pass_at_k(num_samples: int, num_correct: int, k: int, tau: float) -> float:
    """Return the probability that at least a share `tau` of `k` outputs is right, drawn without
    replacement (arXiv 2412.13147, a hypergeometric tail):

    `sum_{j = ceil(tau k)}^{c} C(c, j) C(n - c, k - j) / C(n, k)`.

    It is [`~.metrics.pass_at_k`] for a `tau` of up to `1 / k`, and the probability that all are
    right for `tau = 1`.

    Args:
        num_samples: Outputs of the problem, n >= 1.
        num_correct: Right ones among them, 0 <= c <= n.
        k: Outputs that are drawn, 1 <= k <= n.
        tau: Share of them that must be right, in (0, 1], as its decimal digits say: 0.6 of 5 is 3.

    Raises:
        ValueError: An argument is out of range.

    Example:
    ```python
    >>> g_pass_at_k(num_samples=4, num_correct=3, k=2, tau=1.0)
    0.5

    ```
    """
    if not 0 < tau <= 1:
        raise ValueError(
            f"tau must lie above 0 and not above 1, got {tau}: it is a share of the outputs."
        )
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}: there is no output otherwise.")
    refuse_out_of_range(num_samples, num_correct=num_correct, k=k)
    least = ceil(Fraction(str(tau)) * k)
    return _at_least(num_samples, num_correct, k, least)


def mg_pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Return G-Pass@k, averaged over the shares above one half (arXiv 2412.13147):

    `2 / k * sum_{i = ceil(k / 2) + 1}^{k} G-Pass@k_{i/k}`,

    twice the integral over tau from 0.5 to 1. With an odd k the paper's sum has `(k - 1) / 2`
    terms, and is at most `1 - 1 / k`. For `k = 1` it has none and is 0.

    Args:
        num_samples: As in [`g_pass_at_k`].
        num_correct: As there.
        k: As there.

    Raises:
        ValueError: As there.

    Example:
    ```python
    >>> mg_pass_at_k(num_samples=4, num_correct=3, k=4)  # i = 3: 1, i = 4: 0
    0.5

    ```
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}: there is no output otherwise.")
    refuse_out_of_range(num_samples, num_correct=num_correct, k=k)
    above_half = range(ceil(k / 2) + 1, k + 1)
    return 2 / k * sum(_at_least(num_samples, num_correct, k, i) for i in above_half)


def mean_g_pass_at_k(rewards: Sequence[Sequence[float]], k: int, tau: float) -> Estimate:
    """Average G-Pass@k over the problems of a benchmark.

    Args:
        rewards: Rewards of each problem's samples.
        k: As in [`g_pass_at_k`].
        tau: As there.

    Raises:
        ValueError: There is no problem, or one with too few samples.
    """
    return accuracy([[g_pass_at_k(len(r), _num_correct(r), k, tau)] for r in rewards])


def mean_mg_pass_at_k(rewards: Sequence[Sequence[float]], k: int) -> Estimate:
    """Average mG-Pass@k over the problems of a benchmark.

    Args:
        rewards: As in [`mean_g_pass_at_k`].
        k: As there.

    Raises:
        ValueError: As there.
    """
    return accuracy([[mg_pass_at_k(len(r), _num_correct(r), k)] for r in rewards])


def _at_least(num_samples: int, num_correct: int, k: int, least: int) -> float:
    wrong = num_samples - num_correct
    ways = sum(
        comb(num_correct, j) * comb(wrong, k - j) for j in range(least, min(k, num_correct) + 1)
    )
    return ways / comb(num_samples, k)


def _num_correct(rewards: Sequence[float]) -> int:
    return sum(reward == 1 for reward in rewards)
