"""The summary of the responses to benchmarks: `results.json`, and its tables."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from ..hypotheses import representatives
from .json_files import read_object
from .responses import Response, by_problem
from .statistics import Estimate, accuracy, mean_pass_at_k, share_interval

_FREE = {"versions", "batch_size", "trained_by"}
"""Settings that may differ between the runs that write to one folder."""


def summarize(
    responses: Sequence[Response], equivalent: Callable[[str, str], bool] | None = None
) -> dict[str, Any]:
    """Return the entry of a benchmark in `results.json`.

    Accuracies lie in [0, 1]. So do `truncated`, `no_answer` and `timeouts`, the shares of responses
    that were cut off, that have no answer, and whose grading timed out or crashed: all count as
    wrong. With n the smallest number of responses to a problem, pass@k is given for all k up to n;
    where n exceeds 1, avg@n is the accuracy with its 95 % interval over problems, and cons@n the
    accuracy of the vote, if `equivalent` says whether two answers are the same.
    """
    groups = [*by_problem(responses).values()]
    rewards = [[response.reward for response in group] for group in groups]
    estimate, most = accuracy(rewards), min(map(len, groups))
    summary = {
        "num_problems": len(groups),
        "accuracy": estimate.mean,
        "standard_error": estimate.standard_error,
        "mean_tokens": fmean(response.tokens for response in responses),
        "truncated": fmean(response.truncated for response in responses),
        "no_answer": fmean(response.answer is None for response in responses),
        "timeouts": fmean(response.reason in ("timeout", "crash") for response in responses),
        "pass@k": {str(k): mean_pass_at_k(rewards, k)._asdict() for k in range(1, most + 1)},
    }
    if most > 1:
        low, high = share_interval(estimate, len(groups)) or (None, None)
        summary["avg@k"] = {str(most): estimate._asdict() | {"low": low, "high": high}}
        if equivalent:
            votes = [[consensus(group[:most], equivalent)] for group in groups]
            summary["cons@k"] = {str(most): accuracy(votes)._asdict()}
    return summary


def consensus(responses: Sequence[Response], equivalent: Callable[[str, str], bool]) -> float:
    """Return the probability that the right answer wins the vote of the responses to a problem.

    If t answers share the lead, each wins with probability 1 / t. Responses without an answer do
    not vote. All answers that the grader rewarded are one class; wrong ones form classes as
    hypotheses do in training.
    """
    wrong = Counter(r.answer for r in responses if r.answer is not None and r.reward != 1)
    (stands_for, _), classes = representatives(wrong, equivalent), Counter[str]()
    for answer, votes in wrong.items():
        classes[stands_for[answer]] += votes
    right = sum(response.reward == 1 for response in responses)
    if right < max(classes.values(), default=1):
        return 0.0
    return 1 / (1 + list(classes.values()).count(right))


def open_results(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the results to add to: new ones, or those of an earlier run with the same settings.

    A ValueError says that the settings differ. The versions of both runs are joined.
    """
    path = folder / "results.json"
    if not path.exists():
        return settings | {"runs": [], "benchmarks": {}}
    earlier = read_object(path, model=str, versions=dict, runs=list, benchmarks=dict)
    for name in settings.keys() - _FREE:
        if earlier.get(name) != settings[name]:
            raise ValueError(
                f"{name} must be {earlier.get(name)!r} as in the responses in {folder}, got "
                f"{settings[name]!r}: choose another output_dir."
            )
    versions = {}
    for name, version in settings["versions"].items():
        before = earlier["versions"].get(name, version).split(", ")
        versions[name] = ", ".join(dict.fromkeys([*before, version]))
    kept = {"runs": earlier["runs"], "benchmarks": earlier["benchmarks"]}
    return settings | {"versions": versions} | kept


# Tables


def text_table(title: str, rows: Sequence[Mapping[str, str]], *, align: str = "left") -> str:
    """Return rows (column title -> text) as lines of aligned text below a title.

    Control characters are escaped: a name may command a terminal. `align` (`"left"`, `"right"`) is
    that of all columns but the first.
    """
    lines = [[*map(_printable, cells)] for cells in (rows[0], *(row.values() for row in rows))]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["─" * width for width in widths])
    justify = str.rjust if align == "right" else str.ljust
    shown = (
        "  ".join([first.ljust(widths[0]), *map(justify, others, widths[1:])]).rstrip()
        for first, *others in lines
    )
    return "\n".join(["", _printable(title), *shown, ""])


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def table_rows(results: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the table of benchmarks; "not judged" is there if any grading timed out or crashed."""
    shares = {"cut off": "truncated", "no answer": "no_answer"}
    if any(row["timeouts"] for row in results["benchmarks"].values()):
        shares["not judged"] = "timeouts"
    table = []
    for name, row in results["benchmarks"].items():
        problems, skipped = f"{row['num_problems']:,}", sum(row["skipped"].values())
        cells = {
            "benchmark": name,
            "problems": f"{problems} (skipped: {skipped:,})" if skipped else problems,
            "accuracy": _percent(row["accuracy"], row["standard_error"], row["num_problems"]),
            "tokens": f"{row['mean_tokens']:.1f}",
        }
        table.append(cells | {title: f"{100 * row[key]:.1f} %" for title, key in shares.items()})
    return table


def _percent(mean: float, standard_error: float | None, number: int) -> str:
    if mean in (0, 1):  # the standard error would be 0
        low, high = share_interval(Estimate(mean, None), number) or (0, 1)
        return f"{100 * mean:.1f} [{100 * low:.1f}, {100 * high:.1f}] %"
    error = "" if standard_error is None else f" ± {100 * standard_error:.1f}"
    return f"{100 * mean:.1f}{error} %"


def sample_rows(results: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the table of avg@k, pass@k and cons@k of benchmarks with several samples."""
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
