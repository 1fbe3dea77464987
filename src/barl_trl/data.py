"""Data set row -> `{"prompt", "solution"}`, from the Hub or a local file, whatever its columns."""

import argparse
import difflib
import logging
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._text_files import TEXT_SUFFIXES, read_text_file
from .answers import truth_answer, why_inadmissible
from .data_check import SUSPICIONS, Finding, suspicions
from .graders.strings import MAX_TRUTH_CHARS, plain_text

if TYPE_CHECKING:
    from datasets import Dataset

logger = logging.getLogger(__name__)

PAPER_SYSTEM_PROMPT = r"Please reason step by step, and put your final answer within \boxed{}."
PROBLEM_COLUMNS = ("problem", "question", "prompt")
ANSWER_COLUMNS = ("answer", "final_answer", "solution")
"""Columns to look for, in this order: `solution` is mostly a worked one, the answer in its box."""

MOST_PARSED_AT_LOAD = 1000

_SUFFIXES = (*TEXT_SUFFIXES, ".parquet")


@dataclass(frozen=True)
class DataReport:
    """What became of the rows of a data set.

    Attributes:
        rows (`int`):
            Rows read.
        skipped (`list[Finding]`):
            Rows that cannot be trained on, with the reason: `"no_problem"`, `"no_answer"` (missing,
            empty, or neither text nor a number), or what makes the true answer inadmissible (see
            [`~barl_trl.answers.why_inadmissible`]).
        suspicious (`list[Finding]`):
            Rows that are kept and deserve a look (see [`~barl_trl.data_check.SUSPICIONS`]).
    """

    rows: int
    skipped: list[Finding]
    suspicious: list[Finding]

    @property
    def kept(self) -> int:
        """Number of rows that can be trained on."""
        return self.rows - len(self.skipped)

    def __str__(self) -> str:
        """Return the report on one line."""
        parts = [("skipped", self.skipped), ("kept, but look at", self.suspicious)]
        reasons = [f"{name}: {_counts(findings)}" for name, findings in parts if findings]
        return f"{self.kept} of {self.rows} rows kept" + (
            f" ({'; '.join(reasons)})" if reasons else ""
        )


def _counts(findings: Sequence[Finding]) -> str:
    counts = sorted(Counter(finding.reason for finding in findings).items())
    return ", ".join(f"{count} {reason}" for reason, count in counts)


def load_problems(
    path_or_id: str,
    *,
    split: str = "train",
    config: str | None = None,
    problem_column: str | None = None,
    answer_column: str | None = None,
    system_prompt: str | None = None,
    prompt_format: str = "{problem}",
    conversational: bool = True,
    most_parsed: int | None = MOST_PARSED_AT_LOAD,
) -> tuple["Dataset", DataReport]:
    """Load problems with their true answers, in the form in which a trainer takes them.

    Args:
        path_or_id (`str`):
            A JSONL, JSON, CSV or Parquet file, a folder of such files, or the id of a data set on
            the Hub.
        split (`str`, *optional*, defaults to `"train"`):
            Split to load; may be a slice such as `"train[:100]"`. The split of a file is called
            `train`.
        config (`str`, *optional*):
            Configuration of a Hub data set, such as `"main"`.
        problem_column (`str`, *optional*):
            Column of the problem. By default the first of `problem`, `question` and `prompt`, in
            any case.
        answer_column (`str`, *optional*):
            Column of the true answer, bare or in a worked solution. By default the first of
            `answer`, `final_answer` and `solution`.
        system_prompt (`str`, *optional*):
            Content of a system message before each problem, such as [`PAPER_SYSTEM_PROMPT`].
        prompt_format (`str`, *optional*, defaults to `"{problem}"`):
            Text of the user message, or of the plain prompt, with `{problem}` in it.
        conversational (`bool`, *optional*, defaults to `True`):
            Whether `prompt` is a list of messages, to which the chat template applies, or plain
            text.
        most_parsed (`int`, *optional*, defaults to `1000`):
            Most true answers that are tried on a grader's parser, to tell which it cannot read;
            None for all, as `barl data check` does.

    Returns:
        `tuple[Dataset, DataReport]`:
            The data set with the columns `prompt` and `solution` (the bare true answer), and what
            became of the rows.

    Raises:
        FileNotFoundError: If there is no such file, or no such data set on the Hub.
        ValueError: If the file cannot be read, a column is missing, or no row can be used.
    """
    _check_prompt(prompt_format, system_prompt, conversational)
    raw = _read(path_or_id, split, config)
    columns = raw.column_names
    problem_column = _column(columns, "problem_column", problem_column, PROBLEM_COLUMNS)
    answer_column = _column(columns, "answer_column", answer_column, ANSWER_COLUMNS)
    rows = raw.map(
        _to_row,
        input_columns=[problem_column, answer_column],
        fn_kwargs={
            "system_prompt": system_prompt,
            "prompt_format": prompt_format,
            "conversational": conversational,
        },
        remove_columns=columns,
        features=_features(conversational),
    )
    # The reasons are a column: `map` may take its result from the cache and not call the function
    # at all.
    reasons, answers = list(rows["skipped"]), list(rows["solution"])
    problems = [
        "" if reason else plain_text(problem) or ""
        for reason, problem in zip(reasons, raw[problem_column], strict=True)
    ]
    report = DataReport(
        len(rows),
        [
            Finding(i, reasons[i - 1], answers[i - 1])
            for i in range(1, len(rows) + 1)
            if reasons[i - 1]
        ],
        suspicions(problems, answers, most_parsed=most_parsed) if _is_first_process() else [],
    )
    if not report.kept:
        raise ValueError(
            f"{path_or_id} must have at least one usable row, got {report}: check `problem_column` "
            f"({problem_column!r}) and `answer_column` ({answer_column!r})"
        )
    has_findings = report.skipped or report.suspicious
    logger.log(
        logging.WARNING if has_findings else logging.INFO,
        "%s: %s%s",
        path_or_id,
        report,
        "; the rows: barl data check" if has_findings else "",
    )
    usable = rows.filter(_is_usable, input_columns="skipped").remove_columns("skipped")
    path = Path(path_or_id)
    usable.info.dataset_name = path.name if path.exists() else path_or_id  # for the model card
    return usable, report


def _is_first_process() -> bool:
    """Whether this process reports for all of a launch."""
    return os.environ.get("RANK", "0") == "0"


def _check_prompt(prompt_format: str, system_prompt: str | None, conversational: bool) -> None:
    if "{problem}" not in prompt_format:
        raise ValueError(
            f"prompt_format must contain {{problem}}, got {prompt_format!r}: "
            "the problem is put there"
        )
    if system_prompt is not None and not conversational:
        raise ValueError(
            f"system_prompt must be None without messages, got {system_prompt!r}: "
            "put it into `prompt_format`, as the model expects it"
        )


def _to_row(
    problem: Any,
    solution: Any,
    *,
    system_prompt: str | None,
    prompt_format: str,
    conversational: bool,
) -> dict[str, Any]:
    problem = (plain_text(problem) or "").strip()
    answer = truth_answer(solution)
    skipped = why_inadmissible(answer, max_chars=MAX_TRUTH_CHARS)
    skipped = "no_problem" if not problem else "no_answer" if not answer else skipped
    # Not str.format: problems and templates are full of TeX braces.
    text = prompt_format.replace("{problem}", problem)
    messages = [("system", system_prompt), ("user", text)]
    conversation = [{"role": role, "content": content} for role, content in messages if content]
    prompt = conversation if conversational else text
    return {"prompt": prompt, "solution": answer, "skipped": skipped}


def _is_usable(skipped: str | None) -> bool:
    return skipped is None


def _features(conversational: bool):
    from datasets import Features, List, Value

    text = Value("string")
    prompt = List({"role": text, "content": text}) if conversational else text
    return Features({"prompt": prompt, "solution": text, "skipped": text})


def _column(
    columns: Sequence[str], option: str, wanted: str | None, candidates: Sequence[str]
) -> str:
    lowered = {column.lower(): column for column in columns}
    names = candidates if wanted is None else [wanted]
    for name in names:
        if name in columns:
            return name
        if wanted is None and name in lowered:
            return lowered[name]
    nearest = [
        lowered[match]
        for name in names
        for match in difflib.get_close_matches(name.lower(), lowered, n=1)
    ]
    hint = f"did you mean {nearest[0]!r}?" if nearest else "name the column that holds it"
    raise ValueError(
        f"{option} must be a column of the data set, got {wanted or ' | '.join(candidates)!r} "
        f"with columns {', '.join(columns)}: {hint}"
    )


def _read(path_or_id: str, split: str, config: str | None) -> "Dataset":
    from datasets import load_dataset
    from datasets.exceptions import DatasetGenerationError
    from pyarrow import ArrowInvalid

    path = Path(path_or_id)
    if path.is_file():
        if path.suffix not in _SUFFIXES:
            raise ValueError(
                f"path_or_id must end in {', '.join(_SUFFIXES)}, got {path_or_id}: "
                "convert the file to JSON lines"
            )
        if path.suffix in TEXT_SUFFIXES:
            return read_text_file(path, split)
    elif path.suffix in _SUFFIXES:
        raise FileNotFoundError(
            f"path_or_id must name an existing file, got {path_or_id}: "
            f"there is none in {path.absolute().parent}"
        )
    try:
        if path.is_file():
            return load_dataset("parquet", data_files=str(path), split=split)
        return load_dataset(path_or_id, config, split=split)
    except (DatasetGenerationError, ArrowInvalid) as error:
        raise ValueError(
            f"path_or_id must name readable data, got {path_or_id} ({error.__cause__ or error}): "
            "for mixed types name the JSONL or CSV file itself"
        ) from error


def main(argv: list[str]) -> None:
    """`barl data check`: list the rows that cannot be used, and those that deserve a look."""
    parser = argparse.ArgumentParser(prog="barl data")
    check = parser.add_subparsers(required=True, metavar="COMMAND").add_parser(
        "check",
        help="list the rows of a data set that cannot be trained on or deserve a look",
        description="Lists rows without a problem or a usable true answer, true answers that no "
        "grader can read, placeholders, duplicates and contradictions. Exits with 1 if there are "
        "any.",
    )
    check.add_argument("data", metavar="FILE", help="local file or folder, or Hub id")
    check.add_argument("--split", default="train")
    check.add_argument("--config", help="configuration of a Hub data set")
    check.add_argument("--problem_column")
    check.add_argument("--answer_column")
    options = vars(parser.parse_args(argv))
    logging.getLogger(__name__).setLevel(logging.ERROR)  # the report is printed below
    try:
        _, report = load_problems(options.pop("data"), **options, most_parsed=None)
    except (FileNotFoundError, ValueError) as error:
        sys.exit(f"barl data check: {error}")
    for title, findings in (("skipped", report.skipped), ("look at", report.suspicious)):
        for row, reason, answer in findings:
            print(f"row {row}: {title}: {reason}: {answer[:80]!r}")
    for reason in dict.fromkeys(finding.reason for finding in report.suspicious):
        print(f"{reason}: {SUSPICIONS[reason]}")
    print(report)
    sys.exit(1 if report.skipped or report.suspicious else 0)
