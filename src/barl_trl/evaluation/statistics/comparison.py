r"""Comparison of two arms over training seeds s and problems p.

Both are random: other seeds would have trained other models, and a benchmark could have asked
other problems. An arm's value on a problem is $x_{sp} = \mu + a_s + b_p + e_{sp}$. Both arms have
the same problems, but each has its own seeds. The variance of the difference of two arms' means is
the variance over problems plus the variance over seeds:

$$V = \frac{\mathrm{var}_p(\bar x_p - \bar y_p)}{N}
+ \max\Big(0, \sum_{arms} \frac{\mathrm{var}_s(\bar x_s)}{S} - \frac{\mathrm{var}(e)}{S N}\Big)$$

Both parts contain $\mathrm{var}(e)$, so that it is subtracted once. The interval is Student's, with
Satterthwaite's degrees of freedom.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t

_POWER = 0.8
"""Probability with which a test detects the smallest detectable difference."""

_MOST_SEEDS = 100
"""Largest number of seeds that [`seeds_needed`] returns."""

Values = np.ndarray
"""Values of an arm by seed and problem, (S, N), or by seed, problem and k, (S, N, K)."""


class Comparison(NamedTuple):
    """The difference of two arms' means.

    Attributes:
        difference: The first arm's mean minus the second's.
        standard_error: Standard error of the difference over seeds and problems; over problems
            alone if both arms have one seed.
        low: Lower end of the 95 % interval of the difference. It and what follows are None if the
            difference varies over neither seeds nor problems: then nothing says how sure it is.
        high: Upper end of the 95 % interval of the difference.
        p_value: Two-sided p-value of the hypothesis that there is no difference.
        detectable: The smallest difference that is detected with a probability of 0.8.
    """

    difference: float
    standard_error: float
    low: float | None
    high: float | None
    p_value: float | None
    detectable: float | None


class _Variance(NamedTuple):
    """Parts of the variance of the difference of two arms' means.

    Attributes:
        problems: Variance over problems.
        of_problems: Its degrees of freedom.
        seeds: Variance over seeds of each arm that has more than one.
        num_seeds: Number of seeds of these arms.
        residuals: Variance of the residuals e of these arms, which `problems` and `seeds` both
            contain.
    """

    problems: float
    of_problems: int
    seeds: tuple[float, ...]
    num_seeds: tuple[int, ...]
    residuals: tuple[float, ...]

    def with_seeds(self, number: int) -> "_Variance":
        """Return the parts if each of these arms had so many seeds."""
        shares = [of_arm / number for of_arm in self.num_seeds]
        residuals = tuple(x * y for x, y in zip(self.residuals, shares, strict=True))
        return self._replace(
            problems=self.problems - sum(self.residuals) + sum(residuals),
            seeds=tuple(x * y for x, y in zip(self.seeds, shares, strict=True)),
            num_seeds=(number,) * len(shares),
            residuals=residuals,
        )

    def total(self) -> tuple[float, float]:
        """Return the variance, and its degrees of freedom."""
        of_seeds = max(0.0, sum(self.seeds) - sum(self.residuals))
        total = max(self.problems, 0.0) + of_seeds
        if not total:
            return 0.0, self.of_problems
        spread = (self.problems / total) ** 2 / self.of_problems
        for part, number in zip(self.seeds, self.num_seeds, strict=True) if of_seeds else ():
            spread += (part / total) ** 2 / (number - 1)
        return total, 1 / spread

    def detectable(self) -> float:
        """Return the smallest difference that is detected with a probability of `_POWER`."""
        total, df = self.total()
        return float(t.ppf(0.975, df) + t.ppf(_POWER, df)) * math.sqrt(total)


def compare(first: Values, second: Values) -> Comparison:
    """Compare the means of two arms on the same problems.

    Args:
        first: Values of the first arm, (S, N).
        second: Values of the second arm, (S', N).

    Raises:
        ValueError: There are fewer than two problems, or the arms have different numbers of them.
    """
    if first.shape[1] != second.shape[1] or first.shape[1] < 2:
        raise ValueError(
            f"both arms must have values on the same problems, two or more, got {first.shape[1]} "
            f"and {second.shape[1]}: evaluate both on the same ones."
        )
    variance = _variance(first, second)
    total, df = variance.total()
    difference, error = float(first.mean() - second.mean()), math.sqrt(total)
    if not error:
        return Comparison(difference, error, None, None, None, None)
    reach = float(t.ppf(0.975, df)) * error
    p_value = float(2 * t.sf(abs(difference) / error, df))
    interval = difference - reach, difference + reach
    return Comparison(difference, error, *interval, p_value, variance.detectable())


def seeds_needed(first: Values, second: Values) -> int | None:
    """Return how many seeds of each arm would detect the difference that was observed.

    The problems stay the same.

    Args:
        first: Values of the first arm, (S, N).
        second: Values of the second arm, (S', N).

    Returns:
        The number of seeds, at least max(S, S'); None if 100 seeds do not suffice, or if an arm has
        one seed, so that nobody knows how much it varies.
    """
    variance, difference = _variance(first, second), abs(float(first.mean() - second.mean()))
    if len(variance.seeds) < 2:
        return None
    for number in range(max(variance.num_seeds), _MOST_SEEDS + 1):
        if 0 < variance.with_seeds(number).detectable() <= difference:
            return number
    return None


def _variance(first: Values, second: Values) -> _Variance:
    """Estimate the parts of the variance of the difference of two arms' means."""
    number = first.shape[1]
    by_problem = first.mean(axis=0) - second.mean(axis=0)
    seeded = [arm for arm in (first, second) if len(arm) > 1]
    residuals = []
    for arm in seeded:
        rest = arm - arm.mean(axis=0) - arm.mean(axis=1, keepdims=True) + arm.mean()
        freedom = (len(arm) - 1) * (number - 1)
        residuals.append(float((rest**2).sum()) / freedom / arm.size)
    return _Variance(
        problems=_variance_of(by_problem) / number,
        of_problems=number - 1,
        seeds=tuple(_variance_of(arm.mean(axis=1)) / len(arm) for arm in seeded),
        num_seeds=tuple(map(len, seeded)),
        residuals=tuple(residuals),
    )


def _variance_of(values: np.ndarray) -> float:
    """Return the variance; 0 of equal values, without what rounding makes of it."""
    return float(values.var(ddof=1)) if np.ptp(values) else 0.0


def bootstrap(
    arms: Sequence[Values],
    statistic: Callable[..., Any],
    *,
    draws: int = 2000,
    seed: int = 0,
) -> np.ndarray:
    """Compute a statistic of arms' means over seeds and problems drawn with replacement.

    Args:
        arms: Values of each arm, (S, N, …), on the same problems.
        statistic: Function of the means of each arm, each (draws, …). It returns (draws,).
        draws: Number of draws.
        seed: Seed of the generator.

    Returns:
        The statistic of each draw, (draws,).
    """
    generator = np.random.default_rng(seed)
    problems = _weights(generator, draws, arms[0].shape[1])
    means = []
    for arm in arms:
        seeds = _weights(generator, draws, len(arm))
        means.append(np.einsum("ds,dp,sp...->d...", seeds, problems, arm, optimize=True))
    return statistic(*means)


def _weights(generator: np.random.Generator, draws: int, number: int) -> np.ndarray:
    """Draw `number` items with replacement; return the share of each, (draws, number)."""
    return generator.multinomial(number, np.full(number, 1 / number), size=draws) / number


def tokens_at_equal_accuracy(
    first: tuple[Values, Values], second: tuple[Values, Values]
) -> tuple[float, float, float] | None:
    """Return the ratio of the first arm's tokens to the second's at the same accuracy.

    An arm draws k responses to each problem, and its accuracy is pass@k. The arms are compared at
    the lower of their two accuracies at the largest k. Tokens between two k are interpolated; of
    several k with the same accuracy the smallest counts.

    Args:
        first: Pass@k and total tokens of the first arm, each (S, N, K).
        second: Pass@k and total tokens of the second arm, each (S', N, K).

    Returns:
        The ratio, and the lower and upper end of its 95 % interval by bootstrap; None if one
        response of an arm is more accurate than all of the other, so that no accuracy is the same.
    """

    def ratio(*means: np.ndarray) -> np.ndarray:
        """Return the ratio of each draw, (draws,), from each arm's mean curve, (draws, K, 2)."""
        levels = np.minimum(*(curves[:, -1, 0] for curves in means))
        tokens = [
            [
                np.interp(level, *_rises(curve).T)
                for level, curve in zip(levels, curves, strict=True)
            ]
            for curves in means
        ]
        return np.array(tokens[0]) / np.array(tokens[1])

    arms = [np.stack(arm, axis=-1) for arm in (first, second)]  # pass@k stays with its tokens
    means = [arm.mean(axis=(0, 1))[None] for arm in arms]
    if max(curves[0, 0, 0] for curves in means) > min(curves[0, -1, 0] for curves in means):
        return None
    low, high = np.quantile(bootstrap(arms, ratio), [0.025, 0.975])
    return float(ratio(*means)[0]), float(low), float(high)


def _rises(curve: np.ndarray) -> np.ndarray:
    """Return the points of a curve, (K, 2), that are more accurate than the point before."""
    return curve[np.diff(curve[:, 0], prepend=-1.0) > 1e-9]  # means are rounded
