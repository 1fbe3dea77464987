r"""Comparison of arms over training seeds s and problems p.

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
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .responses import ResponsesByProblem
from .statistics import pass_at_k, student_quantile, student_tail

_POWER = 0.8  # probability with which a test detects the smallest detectable difference

Values = np.ndarray
"""Values of an arm by seed and problem, (S, N), or by seed, problem and k, (S, N, K)."""


class _Comparison(NamedTuple):
    """The first arm's mean minus the second's, with its standard error and 95 % interval.

    They are over seeds and problems; over problems alone if both arms have one seed. `p_value` is
    two-sided; `detectable` is the smallest difference that is detected with a probability of 0.8.
    What is None is unknown, because the difference varies over neither seeds nor problems.
    """

    difference: float
    standard_error: float
    low: float | None
    high: float | None
    p_value: float | None
    detectable: float | None


def compare(first: Values, second: Values) -> _Comparison:
    """Compare the means of two arms, (S, N) and (S', N), on the same problems.

    Raises:
        ValueError: There are fewer than two problems, or the arms have different numbers of them.
    """
    if first.shape[1] != second.shape[1] or first.shape[1] < 2:
        raise ValueError("both arms must have values on the same problems, two or more.")
    total, df = _variance(first, second)
    mean, error = float(first.mean() - second.mean()), math.sqrt(total)
    if not error:
        return _Comparison(mean, error, None, None, None, None)
    reach = student_quantile(0.975, df) * error
    p_value = 2 * student_tail(abs(mean) / error, df)
    detectable = reach + student_quantile(_POWER, df) * error
    return _Comparison(mean, error, mean - reach, mean + reach, p_value, detectable)


def seeds_needed(first: Values, second: Values) -> int | None:
    """Return how many seeds of each arm would detect the observed difference on these problems.

    It is at least max(S, S'); None if 100 seeds do not suffice, or if an arm has one seed, so that
    nobody knows how much it varies.
    """
    if min(len(first), len(second)) < 2:
        return None
    difference = abs(float(first.mean() - second.mean()))
    for number in range(max(len(first), len(second)), 101):
        total, df = _variance(first, second, number)
        reach = student_quantile(0.975, df) + student_quantile(_POWER, df)
        if 0 < reach * math.sqrt(total) <= difference:
            return number
    return None


def _variance(first: Values, second: Values, seeds: int | None = None) -> tuple[float, float]:
    """Estimate the variance of the difference of two arms' means, and its degrees of freedom.

    With `seeds` it is what it would be if each arm with more than one seed had so many.
    """
    number = first.shape[1]
    of_problems = _variance_of(first.mean(axis=0) - second.mean(axis=0)) / number
    parts, residuals = [], 0.0
    for arm in (first, second):
        size, taken = len(arm), seeds or len(arm)
        if size < 2:
            continue
        rest = arm - arm.mean(axis=0) - arm.mean(axis=1, keepdims=True) + arm.mean()
        residual = float((rest**2).sum()) / (size - 1) / (number - 1) / number
        of_problems += residual / taken - residual / size
        residuals += residual / taken
        parts.append((_variance_of(arm.mean(axis=1)) / taken, taken - 1))
    of_parts = sum(part for part, _ in parts)
    of_seeds = of_parts - residuals if of_parts - residuals > 1e-12 * of_parts else 0.0
    total = max(of_problems, 0.0) + of_seeds
    if not total:
        return 0.0, number - 1
    spread = (of_problems / total) ** 2 / (number - 1)
    spread += sum((part / total) ** 2 / df for part, df in parts) if of_seeds else 0.0
    return total, 1 / spread


def _variance_of(values: np.ndarray) -> float:
    """Return the variance; 0 of equal values, without what rounding makes of it."""
    return float(values.var(ddof=1)) if np.ptp(values) else 0.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values that are corrected for their number by Holm's method (1979).

    Example:
        >>> holm([0.75, 0.125, 0.25])
        [0.75, 0.375, 0.5]
    """
    order = np.argsort(p_values)
    steps = np.sort(p_values) * np.arange(len(order), 0, -1)
    return np.maximum.accumulate(steps).clip(max=1.0)[np.argsort(order)].tolist()


# From responses to rows


Runs = Mapping[str, Sequence[Mapping[str, ResponsesByProblem]]]
"""Arm -> its runs, one per training seed; a run is its responses by benchmark."""


def arms_of(benchmark: str, runs_by_arm: Runs) -> dict[str, tuple[Values, Values]]:
    """Return pass@k of each arm on the problems of a benchmark, and its tokens of k responses.

    Both are (S, N, K). K is the smallest number of responses to a problem in any run.

    Raises:
        ValueError: The runs did not answer the same problems, or those of an arm drew their tokens
            differently.
    """
    arms = {name: [run.get(benchmark, {}) for run in runs] for name, runs in runs_by_arm.items()}
    first, *_ = (run for runs in arms.values() for run in runs)
    asked = {i: of_one[0].problem for i, of_one in first.items()}
    for name, runs in arms.items():
        if any({i: of_one[0].problem for i, of_one in run.items()} != asked for run in runs):
            raise ValueError(
                f"all runs must have answered the same problems of {benchmark}, got other ones in "
                f"a run of {name} than the {len(asked)} of the first."
            )
        drawings = [one.drawing for run in runs for of_one in run.values() for one in of_one]
        noted = [drawing for drawing in drawings if drawing is not None]  # older files do not say
        if any(drawing != noted[0] for drawing in noted):
            raise ValueError(
                f"an arm's runs must have drawn tokens alike, got {noted[0]} and another in {name}:"
                " name them as two arms."
            )
    most = min(len(one) for runs in arms.values() for run in runs for one in run.values())
    ks, values = np.arange(1, most + 1), {}
    for name, runs in arms.items():
        passed, tokens = [], []
        for run in ([*by_problem.values()] for by_problem in runs):
            counts = [(len(of_one), sum(one.reward == 1 for one in of_one)) for of_one in run]
            passed.append([[pass_at_k(*count, int(k)) for k in ks] for count in counts])
            tokens.append([np.mean([one.tokens for one in of_one]) * ks for of_one in run])
        values[name] = np.array(passed), np.array(tokens)
    return values


def comparison_rows(runs_by_arm: Runs) -> list[dict[str, Any]]:
    """Compare every arm but the last with the last one: a row for each benchmark, arm and metric.

    Accuracy and pass@K are shares; `p_holm` is corrected over benchmarks and arms of a metric.
    """
    *names, base = runs_by_arm
    rows: list[dict[str, Any]] = []
    for benchmark in runs_by_arm[base][0]:
        values_of = arms_of(benchmark, runs_by_arm)
        seeds, problems, samples = values_of[base][0].shape
        for name in names:
            sizes = {"seeds": len(values_of[name][0]), "base_seeds": seeds}
            sizes |= {"problems": problems, "samples": samples}
            for metric, statistics in _metrics(values_of[name], values_of[base]).items():
                place = {"benchmark": benchmark, "arm": name, "base": base, "metric": metric}
                rows.append(place | sizes | statistics)
    for metric in {row["metric"] for row in rows}:
        tested = [row for row in rows if row["metric"] == metric and row.get("p_value") is not None]
        corrected = holm([row["p_value"] for row in tested])
        for row, p_value in zip(tested, corrected, strict=True):
            row["p_holm"] = p_value
    return rows


def _metrics(arm: tuple[Values, Values], base: tuple[Values, Values]) -> dict[str, dict[str, Any]]:
    """Return the statistics that compare an arm with the last one, by metric."""
    (passed, tokens), (base_passed, base_tokens), most = arm, base, arm[0].shape[2]
    pairs = {"accuracy": (passed[..., 0], base_passed[..., 0])}
    if most > 1:
        pairs[f"pass@{most}"] = passed[..., -1], base_passed[..., -1]
    pairs["tokens"] = tokens[..., 0], base_tokens[..., 0]
    return {
        metric: {"mean": float(ours.mean()), "base_mean": float(theirs.mean())}
        | compare(ours, theirs)._asdict()
        | {"seeds_needed": seeds_needed(ours, theirs), "p_holm": None}
        for metric, (ours, theirs) in pairs.items()
    }
