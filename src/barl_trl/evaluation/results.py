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


def read_responses(path: Path) -> list[Response]:
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

    Accuracies, the share of responses that were cut off and the share whose grading timed out or
    crashed (they count as wrong) lie in [0, 1]. Pass@k goes up to the number of samples.
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
        "timeouts": share([response.reason in FAILURES for response in responses]),
        "pass@k": {str(k): mean_pass_at_k(rewards, k).mean for k in range(1, num_samples + 1)},
    }


def table_rows(results: Mapping[str, Any]) -> list[dict[str, str]]:
    """The benchmarks of `results.json` as cells of a table, by column."""
    k = str(results["num_samples"])
    rows = []
    for name, row in results["benchmarks"].items():
        error = row["standard_error"]
        cells = {
            "benchmark": name,
            "problems": f"{row['num_problems']:,}",
            "accuracy": f"{100 * row['accuracy']:.1f}"
            + ("" if error is None else f" ± {100 * error:.1f}")
            + " %",
        }
        if k != "1":
            cells[f"pass@{k}"] = f"{100 * row['pass@k'][k]:.1f} %"
        cells["tokens"] = f"{row['mean_tokens']:.1f}"
        cells["cut off"] = f"{100 * row['truncated']:.1f} %"
        cells["not judged"] = f"{100 * row['timeouts']:.1f} %"
        rows.append(cells)
    return rows


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
        self.responses = {response.key: response for response in read_responses(path)}
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


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
