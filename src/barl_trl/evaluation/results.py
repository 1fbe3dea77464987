"""The summary of the responses to benchmarks: `results.json`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from ..report.json_files import read_json
from .responses import Response, by_problem
from .statistics.metrics import accuracy, clopper_pearson
from .statistics.several_samples import summarize_samples

_FAILURES = ("timeout", "crash")
"""Reasons of verdicts that were given without judging the answer."""

_FREE = {"versions", "batch_size", "trained_by"}
"""Settings that may differ between the runs that write to one folder."""


def summarize(
    responses: Sequence[Response], equivalent: Callable[[str, str], bool] | None = None
) -> dict[str, Any]:
    """Return the entry of a benchmark in `results.json`.

    Accuracies lie in [0, 1]. So do `truncated`, `no_answer` and `timeouts`, the shares of responses
    that were cut off, that have no answer, and whose grading timed out or crashed. A response
    without an answer, or whose grading failed, counts as wrong.

    Args:
        responses: All responses to the benchmark.
        equivalent: Whether two answers are the same, the first taken as true. Without it there is
            no cons@k.
    """
    groups = [*by_problem(responses).values()]
    rewards = [[response.reward for response in group] for group in groups]
    estimate = accuracy(rewards)
    return {
        "num_problems": len(groups),
        "accuracy": estimate.mean,
        "standard_error": estimate.standard_error,
        "mean_tokens": fmean(response.tokens for response in responses),
        "truncated": fmean(response.truncated for response in responses),
        "no_answer": fmean(response.answer is None for response in responses),
        "timeouts": fmean(response.reason in _FAILURES for response in responses),
        **summarize_samples(groups, equivalent),
    }


def table_rows(results: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the table of benchmarks in `results.json`: one dict per row, column title -> text.

    The column "not judged" is there if the grading of any response timed out or crashed.
    """
    are_judged = not any(row["timeouts"] for row in results["benchmarks"].values())
    table = []
    for name, row in results["benchmarks"].items():
        problems, skipped = f"{row['num_problems']:,}", sum(row["skipped"].values())
        cells = {
            "benchmark": name,
            "problems": f"{problems} (skipped: {skipped:,})" if skipped else problems,
            "accuracy": _percent(row["accuracy"], row["standard_error"], row["num_problems"]),
            "tokens": f"{row['mean_tokens']:.1f}",
            "cut off": f"{100 * row['truncated']:.1f} %",
            "no answer": f"{100 * row['no_answer']:.1f} %",
        }
        if not are_judged:
            cells["not judged"] = f"{100 * row['timeouts']:.1f} %"
        table.append(cells)
    return table


def open_results(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the results to add to: new ones, or those of an earlier run with the same settings.

    Args:
        settings: The entries of `results.json` beside runs and benchmarks. All must be equal to the
            earlier run's, except the batch size and the code that trained. Versions of both runs
            are joined.
        folder: Folder of the responses and of `results.json`.

    Raises:
        ValueError: The earlier run had other settings.
    """
    path = folder / "results.json"
    if not path.exists():
        return settings | {"runs": [], "benchmarks": {}}
    earlier = read_json(path, model=str, versions=dict, runs=list, benchmarks=dict)
    for name in settings.keys() - _FREE:
        if earlier.get(name) != settings[name]:
            raise ValueError(
                f"{name} must be {earlier.get(name)!r} as in the responses in {folder}, got "
                f"{settings[name]!r}: choose another output_dir."
            )
    versions = {
        name: ", ".join(
            dict.fromkeys([*earlier["versions"].get(name, version).split(", "), version])
        )
        for name, version in settings["versions"].items()
    }
    kept = {"runs": earlier["runs"], "benchmarks": earlier["benchmarks"]}
    return settings | {"versions": versions} | kept


def _percent(mean: float, standard_error: float | None, number: int) -> str:
    """Format the mean over `number` problems, and its standard error if it has one, in percent."""
    if mean in (0, 1):  # the standard error would be 0
        ends = ", ".join(
            f"{100 * end:.1f}" for end in clopper_pearson(round(mean * number), number)
        )
        return f"{100 * mean:.1f} [{ends}] %"
    error = "" if standard_error is None else f" ± {100 * standard_error:.1f}"
    return f"{100 * mean:.1f}{error} %"
