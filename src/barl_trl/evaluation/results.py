"""Response files and what they amount to: `BENCHMARK.jsonl`, `results.json`, `results.md`."""

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from .metrics import accuracy, mean_pass_at_k, share

FAILURES = ("timeout", "crash")
"""Reasons of the graders' verdicts that say nothing of the answer."""

FREE = {"versions", "batch_size"}
"""Settings that may change in a folder."""


@dataclass(frozen=True)
class Response:
    """One generation, as it stands in a response file.

    Attributes:
        benchmark: Name of the benchmark.
        problem_id: Row of the problem in the benchmark, from 0.
        sample: Number of the sample, from 0. A greedy output is sample 0.
        problem: The problem's text.
        solution: Its true answer, bare.
        prompt: The whole prompt.
        response: What the model wrote, without special tokens.
        tokens: Its tokens, without the one that ends the turn.
        truncated: Whether it was cut off before the end of its turn.
        answer: The answer that the grader found, if any.
        reward: 1.0 if it is right, else 0.0.
        reason: What the grader decided it by, or `"timeout"` or `"crash"`.
    """

    benchmark: str
    problem_id: int
    sample: int
    problem: str
    solution: str
    prompt: str
    response: str
    tokens: int
    truncated: bool
    answer: str | None
    reward: float
    reason: str

    @property
    def key(self) -> tuple[int, int]:
        """What the response is a response to, in its benchmark."""
        return self.problem_id, self.sample


def read_response_file(path: Path) -> list[Response]:
    """The responses of a file in the order of problems and samples.

    A last line without an end, which a killed run leaves behind, is left out.

    Raises:
        ValueError: A line is no response.
    """
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    responses = []
    for number, line in enumerate(text.split("\n")[:-1], 1):
        try:
            responses.append(Response(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{path}:{number} must be a response, got {line[:40]!r} ({error}): restore the "
                "file, or move it away to begin anew."
            ) from error
    return sorted(responses, key=lambda response: response.key)


def by_problem(responses: Iterable[Response]) -> list[list[Response]]:
    """The responses of each problem."""
    groups: dict[int, list[Response]] = defaultdict(list)
    for response in responses:
        groups[response.problem_id].append(response)
    return [groups[problem] for problem in sorted(groups)]


def summarize(responses: Sequence[Response]) -> dict[str, Any]:
    """What the responses to a benchmark amount to, as it stands in `results.json`.

    Accuracies and the shares of responses that were cut off, that have no answer, and whose grading
    timed out or crashed (all but the first count as wrong) lie in [0, 1]. Pass@k goes up to the
    number of samples.
    """
    groups = by_problem(responses)
    rewards = [[response.reward for response in group] for group in groups]
    estimate = accuracy(rewards)
    num_samples = min(map(len, groups))
    return {
        "num_problems": len(groups),
        "accuracy": estimate.mean,
        "standard_error": estimate.standard_error,
        "mean_tokens": fmean(response.tokens for response in responses),
        "truncated": share([response.truncated for response in responses]),
        "no_answer": share([response.answer is None for response in responses]),
        "timeouts": share([response.reason in FAILURES for response in responses]),
        "pass@k": {str(k): mean_pass_at_k(rewards, k)._asdict() for k in range(1, num_samples + 1)},
    }


def table_rows(results: Mapping[str, Any]) -> list[dict[str, str]]:
    """The benchmarks of `results.json` as cells of a table, by column; "not judged" if any is."""
    k = str(results["num_samples"])
    are_judged = not any(row["timeouts"] for row in results["benchmarks"].values())
    rows = []
    for name, row in results["benchmarks"].items():
        problems, skipped = f"{row['num_problems']:,}", sum(row["skipped"].values())
        cells = {
            "benchmark": name,
            "problems": f"{problems} (skipped: {skipped:,})" if skipped else problems,
            "accuracy": _percent(row["accuracy"], row["standard_error"]),
        }
        if k != "1":
            cells[f"pass@{k}"] = _percent(**row["pass@k"][k])
        cells["tokens"] = f"{row['mean_tokens']:.1f}"
        cells["cut off"] = f"{100 * row['truncated']:.1f} %"
        cells["no answer"] = f"{100 * row['no_answer']:.1f} %"
        if not are_judged:
            cells["not judged"] = f"{100 * row['timeouts']:.1f} %"
        rows.append(cells)
    return rows


def open_results(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The results to add to: a new folder's, or those of an earlier run with the same settings.

    Args:
        settings: What `results.json` says beside the benchmarks. All of it must be as in the
            earlier run but for [`FREE`], and `versions`, which are joined.
        folder: Where the responses lie.

    Raises:
        ValueError: The earlier run had other settings.
    """
    path = folder / "results.json"
    if not path.exists():
        return settings | {"benchmarks": {}}
    try:
        earlier = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(
            f"{path} must be the results of an earlier run, got {error}: move it away."
        ) from error
    for name in settings.keys() - FREE:
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
    return settings | {"versions": versions, "benchmarks": earlier["benchmarks"]}


def write_results(results: Mapping[str, Any], folder: Path) -> None:
    """Writes `results.json` and `results.md`."""
    partial = folder / "results.json.partial"  # a run may be killed at any time
    partial.write_text(json.dumps(results, indent=1) + "\n")
    partial.replace(folder / "results.json")
    settings = {name: value for name, value in results.items() if name != "benchmarks"}
    lines = [f"- {name}: `{json.dumps(value)}`" for name, value in settings.items()]
    rows = table_rows(results)
    if rows:
        lines += ["", *(_line(cells) for cells in (rows[0], ["---"] * len(rows[0])))]
        lines += [_line(row.values()) for row in rows]
    lines += ["", "Accuracy ± standard error over problems; tokens: mean of a response."]
    (folder / "results.md").write_text("\n".join(lines) + "\n")


class ResponseFile:
    """A response file that grows; of a killed run's the cut-off last line is dropped.

    Args:
        path: The file; it need not exist.

    Attributes:
        responses: What it holds, by problem and sample.
    """

    def __init__(self, path: Path):
        self.responses = {response.key: response for response in read_response_file(path)}
        if path.exists():
            os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
        self._path = path

    def append(self, responses: Iterable[Response]) -> None:
        """Adds responses; they outlive the process from then on."""
        new = {response.key: response for response in responses}
        lines = [json.dumps(asdict(response)) + "\n" for response in new.values()]
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(lines)
        self.responses |= new


def _percent(mean: float, standard_error: float | None) -> str:
    error = "" if standard_error is None else f" ± {100 * standard_error:.1f}"
    return f"{100 * mean:.1f}{error} %"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
