"""Response files of `barl evaluate`: a folder per model and way of sampling, in it a JSON line per
response in `<benchmark>.jsonl`.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..hypotheses import plain_text
from ..report.json_files import parse_json, regular

logger = logging.getLogger(__name__)


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

    Blank lines are skipped, and so is a last line that a killed run cut off, which is said.

    Raises:
        ValueError: A line is no response to the file's benchmark.
    """
    responses, size = _read(path)
    if size < path.stat().st_size:
        logger.warning("%s: its last line was cut off, and does not count.", path)
    return sorted(responses.values(), key=lambda response: response.key)


def _read(path: Path) -> tuple[dict[tuple[int, int], Response], int]:
    """Return the responses of a file, and its size without a last line that was cut off."""
    found: dict[tuple[int, int], Response] = {}
    texts: dict[int, tuple[str, ...]] = {}
    head, size = json.dumps({"benchmark": path.stem})[:-1].encode(), 0
    with regular(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                if line.strip():
                    response = _response(line.decode(), path.stem)
                    asked = response.problem, response.solution, response.prompt
                    if texts.setdefault(response.problem_id, asked) != asked:
                        raise ValueError(f"another problem {response.problem_id} stands before it.")
                    found[response.key] = response
            except (ValueError, TypeError) as error:
                is_ours = found or line.startswith(head) or head.startswith(line)
                if is_ours and not line.endswith(b"\n"):
                    break
                raise ValueError(
                    f"{path}:{number} must be a response to {path.stem}, got "
                    f"{line[:40].decode(errors='replace')!r} ({error}): remove the line, or move "
                    "the file away."
                ) from None
            size += len(line)
    return found, size


def _response(line: str, benchmark: str) -> Response:
    """Return the response that a line holds.

    Raises:
        TypeError: It has other fields.
        ValueError: It is no JSON, or a value is not of its field's kind.
    """
    response = Response(**parse_json(line))
    for name, value in vars(response).items():
        kind, is_right = _KINDS[name]
        if not is_right(value):
            raise ValueError(f"{name} must be {kind}, got {value!r:.40}")
    if response.benchmark != benchmark:
        raise ValueError(f"it is one to {response.benchmark:.40}.")
    return response


def _is_text(value: object) -> bool:
    return isinstance(value, str) and plain_text(value) is not None


_TEXT = "a text", _is_text
_COUNT = "a whole number from 0", lambda value: type(value) is int and 0 <= value < 2**31
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("benchmark", "problem", "solution", "prompt", "response", "reason"), _TEXT),
    **dict.fromkeys(("problem_id", "sample", "tokens"), _COUNT),
    "truncated": ("true or false", lambda value: isinstance(value, bool)),
    "answer": ("a text or null", lambda value: value is None or _is_text(value)),
    "reward": ("0 or 1", lambda value: type(value) in (int, float) and value in (0, 1)),
    "drawing": ("an object or null", lambda value: isinstance(value, dict | None)),
}
"""What the value of each field must be."""


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

    Raises:
        ValueError: It is another file, which stays as it is.
    """

    def __init__(self, path: Path):
        self.responses: dict[tuple[int, int], Response] = {}
        self._path = path
        if path.exists():
            self.responses, size = _read(path)
            with path.open("r+b") as file:
                file.truncate(size)
                file.seek(max(0, size - 1))
                if file.read() not in (b"", b"\n"):
                    file.write(b"\n")

    def append(self, responses: Iterable[Response]) -> None:
        """Add responses; they outlive the process from then on."""
        new = {response.key: response for response in responses}
        lines = [json.dumps(asdict(response)) + "\n" for response in new.values()]
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(lines)
        self.responses |= new
