"""Statistics of several samples of each problem: avg@k, pass@k, cons@k."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..responses import Response
from .metrics import accuracy, mean_pass_at_k, share_interval


def summarize_samples(
    groups: Sequence[Sequence[Response]], equivalent: Callable[[str, str], bool] | None = None
) -> dict[str, Any]:
    """Return pass@k, avg@k and cons@k of a benchmark, by k, as `results.json` holds them.

    With n samples, pass@k is given for all k up to n, avg@k and cons@k for k = n alone. avg@n is
    the accuracy, with its 95 % interval over problems.

    Args:
        groups: The responses to each problem. n is the smallest number of responses to a problem.
        equivalent: Whether two answers are the same, the first taken as true. Without it there is
            no cons@k.
    """
    rewards = [[response.reward for response in group] for group in groups]
    most = min(map(len, groups))
    summary: dict[str, Any] = {
        "pass@k": {str(k): mean_pass_at_k(rewards, k)._asdict() for k in range(1, most + 1)}
    }
    if most == 1:
        return summary
    average = accuracy(rewards)
    low, high = share_interval(average, len(rewards)) or (None, None)
    summary["avg@k"] = {str(most): average._asdict() | {"low": low, "high": high}}
    if equivalent:
        votes = [[_consensus(group[:most], equivalent)] for group in groups]
        summary["cons@k"] = {str(most): accuracy(votes)._asdict()}
    return summary


def _consensus(responses: Sequence[Response], equivalent: Callable[[str, str], bool]) -> float:
    """Return the probability that the right answer wins the vote of the responses to a problem.

    The answer that most responses give wins. If t answers share the lead, each wins with
    probability 1 / t. Responses without an answer do not vote. If none votes, the probability is 0.

    All answers that the grader rewarded are one class. Each distinct wrong answer joins the first
    class whose shortest answer it matches both ways, as hypotheses do in training. An answer whose
    grading timed out or crashed counts as wrong.
    """
    wrong = Counter(r.answer for r in responses if r.answer is not None and r.reward != 1)
    classes: Counter[str] = Counter()
    for answer in sorted(wrong, key=lambda answer: (len(answer), answer)):
        match = (one for one in classes if equivalent(one, answer) and equivalent(answer, one))
        classes[next(match, answer)] += wrong[answer]
    right = sum(response.reward == 1 for response in responses)
    if right < max(classes.values(), default=1):
        return 0.0
    return 1 / (1 + list(classes.values()).count(right))


def sample_rows(results: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the table of avg@k, pass@k and cons@k: one dict per row, column title -> text.

    Benchmarks with one sample of each problem have no row, nor have results of older versions.
    """
    table = []
    for name, row in results["benchmarks"].items():
        for k, average in row.get("avg@k", {}).items():
            low, high = average["low"], average["high"]
            ends = "" if low is None else f" [{100 * low:.1f}, {100 * high:.1f}]"
            cells = {"benchmark": name, f"avg@{k} [95 %]": f"{100 * average['mean']:.1f}{ends}"}
            for metric in ("pass", "cons"):
                mean = row.get(f"{metric}@k", {}).get(k, {}).get("mean")
                cells[f"{metric}@{k}"] = "" if mean is None else f"{100 * mean:.1f}"
            table.append(cells)
    return table
