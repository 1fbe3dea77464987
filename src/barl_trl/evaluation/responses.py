"""Response files of `barl evaluate`: `<benchmark>.jsonl` has one JSON line per response."""

import json
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import StrictDataclassError

from .json_files import regular

logger = logging.getLogger(__name__)


@strict  # whoever makes one gets an error for a value of another type
@dataclass
class Response:
    """A response to a problem, with the fields of its line in a response file.

    Attributes:
        benchmark: Name of the benchmark.
        problem_id: Row of the problem in the benchmark, from 0.
        sample: Number of the sample, from 0. A greedy response is sample 0.
        problem, solution, prompt: The problem's text and true answer, and the whole prompt.
        response: What the model wrote, without special tokens.
        tokens: Number of the response's tokens, without the one that ends the turn.
        truncated: Whether the response was cut off at the longest length.
        answer: The answer that the grader read from the response; None if it read none.
        reward: 1.0 if the answer is right, else 0.0.
        reason: Rule by which the grader decided, or `"timeout"` or `"crash"`.
        drawing: The settings of [`~.generation.Drawing`], by name; None in files of older versions.
        messages: The whole rollout of an agent, with the prompt's messages; None if there are no
            tools. `response` and `tokens` are then what the model wrote in all turns.
        token_ids: Token ids of the whole rollout behind the prompt.
        own_tokens: 1 for each of them that the model wrote, 0 for the others.
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
    reward: float | int
    reason: str
    drawing: dict[str, Any] | None = None
    messages: list[dict[str, Any]] | None = None
    token_ids: list[int] | None = None
    own_tokens: list[int] | None = None

    @property
    def key(self) -> tuple[int, int]:
        """Problem id and sample, which identify the response in its benchmark."""
        return self.problem_id, self.sample


ResponsesByProblem = Mapping[int, list[Response]]
"""Problem id -> the responses to that problem, in the order of their samples."""


def by_problem(responses: Iterable[Response]) -> ResponsesByProblem:
    """Group responses by problem id, in the order of problem ids and samples."""
    ordered = sorted(responses, key=lambda response: response.key)
    return {i: [*of_one] for i, of_one in groupby(ordered, key=lambda one: one.problem_id)}


def read_response_file(path: Path) -> list[Response]:
    """Read the responses of a file, in the order of problem ids and samples.

    Of two responses to the same problem and sample, the later line counts. A last line that a
    killed run cut off is skipped with a warning.

    Raises:
        ValueError: A line is no response to the file's benchmark.
    """
    responses, size = _read(path)
    if size < path.stat().st_size:
        logger.warning("%s: its last line was cut off, and does not count.", path)
    return sorted(responses.values(), key=lambda response: response.key)


def _read(path: Path) -> tuple[dict[tuple[int, int], Response], int]:
    """Return a file's responses by key, and its size without a last line that was cut off."""
    responses: dict[tuple[int, int], Response] = {}
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
                    responses[response.key] = response
            except (RecursionError, StrictDataclassError, TypeError, ValueError) as error:
                is_ours = responses or line.startswith(head) or head.startswith(line)
                if is_ours and not line.endswith(b"\n"):
                    break
                raise ValueError(
                    f"{path}:{number} must be a response to {path.stem}, got "
                    f"{line[:40].decode(errors='replace')!r} ({error.__cause__ or error})."
                ) from None
            size += len(line)
    return responses, size


def _response(line: str, benchmark: str) -> Response:
    """Return the response that a line holds; refuse what would fail later, or in silence."""
    response = Response(**json.loads(line))
    json.dumps(vars(response), ensure_ascii=False).encode()  # no half of a surrogate pair
    ids, own = response.token_ids or [], response.own_tokens or []
    counts = [response.problem_id, response.sample, response.tokens, *ids]
    rules = {
        f"benchmark must be {benchmark}": response.benchmark == benchmark,
        "reward must be 0 or 1": response.reward in (0, 1),
        "numbers must lie between 0 and 2**24": all(0 <= n < 2**24 for n in counts),
        "messages must have roles": all("role" in message for message in response.messages or ()),
        "own_tokens must be a 0 or 1 for each token": len(ids) == len(own) and {*own} <= {0, 1},
    }
    for rule in [rule for rule, holds in rules.items() if not holds]:
        raise ValueError(f"{rule}.")
    return response


def read_responses(
    folder: str | Path, benchmarks: Collection[str] | None = None
) -> dict[str, ResponsesByProblem]:
    """Return the responses in a folder of `barl evaluate`, by benchmark and problem id.

    `benchmarks` are the names of those to read, in this order; None: all.

    Raises:
        ValueError: A file is missing or empty, or a line in it is no response.
    """
    files = {path.stem: path for path in Path(folder).glob("*.jsonl")}
    if not files:
        raise ValueError(f"{folder} must hold <benchmark>.jsonl that `barl evaluate` wrote.")
    if missing := [name for name in benchmarks or () if name not in files]:
        raise ValueError(f"benchmarks must be among {', '.join(sorted(files))}, got {missing[0]}.")
    names = benchmarks or sorted(files)
    problems = {name: by_problem(read_response_file(files[name])) for name in names}
    if empty := [files[name] for name in names if not problems[name]]:
        raise ValueError(f"{empty[0]} must hold responses, got none: move it away.")
    return problems


class ResponseFile:
    """A response file to which responses are added; those in it are `responses`, by key.

    Its writer removes a last line that a killed run cut off. What is no response file is left as it
    is, and raises a ValueError.
    """

    def __init__(self, path: Path, *, is_writer: bool = True):
        self.responses: dict[tuple[int, int], Response] = {}
        self._path = path
        if path.exists():
            self.responses, size = _read(path)
            if not is_writer:
                return
            with path.open("r+b") as file:
                file.truncate(size)
                file.seek(max(0, size - 1))
                if file.read() not in (b"", b"\n"):
                    file.write(b"\n")

    def append(self, responses: Iterable[Response]) -> None:
        """Add responses to the file. Once added they are not lost if the process is killed."""
        new = {response.key: response for response in responses}
        lines = [json.dumps(asdict(response)) + "\n" for response in new.values()]
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(lines)
        self.responses |= new
