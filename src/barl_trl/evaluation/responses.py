"""Response files of `barl evaluate`: a folder per model and way of sampling, in it a JSON line per
response in `<benchmark>.jsonl`.
"""

import json
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path


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
        drawing: How its tokens were drawn, as in [`~.decoding.Drawing`]; None in older files.
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
    drawing: Mapping[str, float] | None = None

    @property
    def key(self) -> tuple[int, int]:
        """What the response is a response to, in its benchmark."""
        return self.problem_id, self.sample


ResponsesByProblem = Mapping[int, list[Response]]
"""The responses to each problem, by its id and in the order of their samples."""


def by_problem(responses: Iterable[Response]) -> ResponsesByProblem:
    """Group responses by problem, problems and samples in their order."""
    groups: dict[int, list[Response]] = defaultdict(list)
    for response in sorted(responses, key=lambda response: response.key):
        groups[response.problem_id].append(response)
    return dict(groups)


def read_response_file(path: Path) -> list[Response]:
    """Read the responses of a file in the order of problems and samples; of two, the later counts.

    Raises:
        ValueError: A line is no response.
    """
    responses = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                responses.append(Response(**json.loads(line)))
            except (ValueError, TypeError) as error:
                raise ValueError(
                    f"{path}:{number} must be a response, got {line[:40]!r} ({error}): if its run "
                    "was killed, run it again, it goes on there; else move the file away."
                ) from None
    unique = {response.key: response for response in responses}  # two runs may have written
    return sorted(unique.values(), key=lambda response: response.key)


def read_responses(
    folder: str | Path, benchmarks: Collection[str] | None = None
) -> dict[str, ResponsesByProblem]:
    """Read a folder of response files.

    Args:
        folder: Where `barl evaluate` wrote to.
        benchmarks: Which to read, in this order. `None`: all.

    Returns:
        The responses to each benchmark.

    Raises:
        ValueError: A file is missing or empty, or a line in it is no response.
    """
    found = {path.stem: path for path in sorted(Path(folder).glob("*.jsonl"), key=lambda p: p.stem)}
    if not found:
        raise ValueError(
            f"a folder of responses must hold <benchmark>.jsonl, got none in {folder}: write them "
            "with `barl evaluate`."
        )
    missing = [name for name in benchmarks or () if name not in found]
    if missing:
        raise ValueError(
            f"benchmarks must be among those in {folder} ({', '.join(found)}), got {missing[0]}."
        )
    read = {name: by_problem(read_response_file(found[name])) for name in benchmarks or found}
    for name, responses in read.items():
        if not responses:
            raise ValueError(
                f"a response file must hold responses, got none in {found[name]}: run "
                "`barl evaluate` again, or move it away."
            )
    return read


class ResponseFile:
    """A response file that grows. The cut-off last line of a killed run is dropped.

    Args:
        path: The file; it need not exist.

    Attributes:
        responses: What it holds, by problem and sample.
    """

    def __init__(self, path: Path):
        self.responses: dict[tuple[int, int], Response] = {}
        if path.exists():
            os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
            self.responses = {response.key: response for response in read_response_file(path)}
        self._path = path

    def append(self, responses: Iterable[Response]) -> None:
        """Add responses; they outlive the process from then on."""
        new = {response.key: response for response in responses}
        lines = [json.dumps(asdict(response)) + "\n" for response in new.values()]
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(lines)
        self.responses |= new
