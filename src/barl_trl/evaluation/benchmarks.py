"""Benchmarks: their problems with true answers, from the Hub or from local files."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ..data import load_problems


@dataclass(frozen=True)
class Source:
    """Where the rows of a benchmark lie: its Hub id, or a local file or folder.

    The problems of its configurations are joined in their order. Columns that are None are looked
    for; the true answer is bare or in a worked solution.
    """

    path: str
    split: str = "train"
    configs: tuple[str | None, ...] = (None,)
    problem_column: str | None = None
    answer_column: str | None = None


_MATH_SUBJECTS = ("algebra", "counting_and_probability", "geometry", "intermediate_algebra")
_MATH_SUBJECTS += ("number_theory", "prealgebra", "precalculus")
_ASKED, _QUESTION = ("problem", "answer"), ("question", "answer")

BENCHMARKS = {
    "gsm8k": Source("openai/gsm8k", "test", ("main",), *_QUESTION),
    # the answer is in the solution's box
    "math": Source("EleutherAI/hendrycks_math", "test", _MATH_SUBJECTS, "problem", "solution"),
    "math500": Source("HuggingFaceH4/MATH-500", "test", (None,), *_ASKED),
    "college_math": Source("di-zhang-fdu/College_Math_Test", "test", (None,), *_QUESTION),
    "olympiadbench": Source(
        "Hothan/OlympiadBench", "train", ("OE_TO_maths_en_COMP",), "question", "final_answer"
    ),
    "aime24": Source("HuggingFaceH4/aime_2024", "train", (None,), *_ASKED),
    "amc23": Source("math-ai/amc23", "test", (None,), *_QUESTION),
    "aime25": Source("MathArena/aime_2025", "train", (None,), *_ASKED),
    "aime26": Source("MathArena/aime_2026", "train", (None,), *_ASKED),
    "hmmt_feb25": Source("MathArena/hmmt_feb_2025", "train", (None,), *_ASKED),
    "hmmt_nov25": Source("MathArena/hmmt_nov_2025", "train", (None,), *_ASKED),
    "hmmt_feb26": Source("MathArena/hmmt_feb_2026", "train", (None,), *_ASKED),
    "minerva_math": Source("math-ai/minervamath", "test", (None,), *_QUESTION),
}
"""Name of a benchmark -> where it lies on the Hub.

The paper evaluates on those up to `amc23`, except `math500`. `docs/evaluation.md` describes each
benchmark.
"""


class Problem(NamedTuple):
    """A problem of a benchmark, with its true answer, bare.

    Its id is the row from 0, where rows that cannot be used are counted, too. The other columns of
    its row are kept if environments may take them.
    """

    id: int
    text: str
    solution: str
    columns: Mapping[str, Any] = MappingProxyType({})


class _Benchmark(NamedTuple):
    """The problems of a benchmark that can be judged; reason -> number of rows skipped for it."""

    problems: list[Problem]
    skipped: dict[str, int]

    @property
    def texts(self) -> list[str]:
        """The problems' texts."""
        return [problem.text for problem in self.problems]


def parse_benchmarks(text: str | None, option: str = "benchmarks") -> dict[str, Source]:
    """Return the benchmarks that a text such as `gsm8k,math=path/to/math,mine=my.jsonl` names.

    A name of [`BENCHMARKS`] is loaded from the Hub or, with `=PATH`, from a local file or folder
    with the same columns. Any other name stands for a user's own file, whose columns
    [`~barl_trl.data.load_problems`] looks for. `option` is the one that has the text.

    Raises:
        ValueError: A name stands twice, or is unknown and has no path.
        FileNotFoundError: There is no such file or folder.
    """
    sources: dict[str, Source] = {}
    for item in filter(None, map(str.strip, (text or "").split(","))):
        name, _, path = item.partition("=")
        if name in sources:
            raise ValueError(f"{option} must name each one once, got {name!r} again: remove it.")
        if not path and name not in BENCHMARKS:
            near = "".join(f"did you mean {n}? " for n in get_close_matches(name, BENCHMARKS, n=1))
            raise ValueError(
                f"{option} must be among {', '.join(BENCHMARKS)}, got {name!r}: {near}A file of "
                f"your own is named as {Path(name).stem}=PATH."
            )
        if not name.replace("-", "_").isidentifier():  # it becomes the name of a file
            raise ValueError(f"{option} must have names of letters, digits, - and _, got {name!r}.")
        if path and not Path(path).exists():
            raise FileNotFoundError(f"{option} must name existing files, got {path}.")
        source = BENCHMARKS.get(name, Source(path))
        sources[name] = _local(source, path) if path else source
    if text is not None and not sources:
        raise ValueError(f"{option} must name at least one, got {text!r}: for instance gsm8k.")
    return sources


def _local(source: Source, path: str) -> Source:
    """Return the source of a local file or folder that has the columns of `source`."""
    if not Path(path).is_dir():
        return replace(source, path=path, split="train", configs=(None,))

    from datasets import get_dataset_config_names, get_dataset_split_names

    names = get_dataset_config_names(path)
    # A copy of the Hub's repository has its configurations; any other folder has a nameless one.
    is_copy = len(names) > 1 or {*names} & {*source.configs}
    configs = source.configs if is_copy else (None,)
    splits = get_dataset_split_names(path, configs[0])
    if len(splits) > 1 and source.split not in splits:
        raise ValueError(f"{path} must have the split {source.split}, got {', '.join(splits)}.")
    split = splits[0] if len(splits) == 1 else source.split
    return replace(source, path=path, split=split, configs=configs)


def load_benchmarks(
    sources: Mapping[str, Source],
    *,
    limit: int | None = None,
    keep_columns: bool = False,
    option: str = "benchmarks",
) -> dict[str, _Benchmark]:
    """Return the problems in the first `limit` rows of each benchmark, by name; None: in all rows.

    A row of messages is a problem if one is the user's and the others are the system's. With
    `keep_columns` the problems keep the other columns of their rows.

    Raises:
        ConnectionError: A data set cannot be had from the Hub.
        ValueError: A column is missing or no row can be used.
    """
    from datasets.exceptions import DatasetNotFoundError

    loaded = {}
    for name, source in sources.items():
        try:
            loaded[name] = _load(source, limit, keep_columns)
        except (ConnectionError, DatasetNotFoundError) as error:
            raise ConnectionError(
                f"{option} must be reachable on the Hub or local, got {source.path} "
                f"({error.__cause__ or error}): name a folder with its files as NAME=PATH."
            ) from None
        except ValueError as error:
            why = str(error).partition(": name it")[0].partition(": try --")[0]  # no option here
            rule = "have columns and rows that can be used, as problem and answer"
            raise ValueError(f"{option} must {rule}, got {source.path}: {why}") from None
    return loaded


def _load(source: Source, limit: int | None, keep_columns: bool) -> _Benchmark:
    problems: list[Problem] = []
    reasons: dict[int, str] = {}
    end = 0
    for config in source.configs:
        data, report = load_problems(
            source.path,
            split=source.split,
            config=config,
            problem_column=source.problem_column,
            answer_column=source.answer_column,
            keep_columns=keep_columns,
        )
        start, end = end, end + report.rows
        reasons |= {start + finding.row - 1: finding.reason for finding in report.skipped}
        kept = [row for row in range(start, end) if row not in reasons]
        rows: Any = zip(kept, data, strict=True)
        for row, columns in rows:
            *earlier, last = columns.pop("prompt")
            solution = columns.pop("solution")
            if any(message["role"] != "system" for message in earlier):
                reasons[row] = "messages"
            else:
                problems.append(Problem(row, last["content"], solution, columns))
    if not problems:
        raise ValueError("each row is a conversation, not one question.")
    end = end if limit is None else limit
    skipped = Counter(reason for row, reason in reasons.items() if row < end)
    return _Benchmark([problem for problem in problems if problem.id < end], dict(skipped))
