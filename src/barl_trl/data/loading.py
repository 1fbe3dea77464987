"""Data set row -> `{"prompt", "solution"}`, from the Hub or a local file, whatever its columns."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..graders.normal_form import MAX_TRUTH_CHARS
from ..hypotheses import is_truth, plain_text, truth_answer, why_inadmissible
from .files import find_column, messages_of, peek, read_rows
from .selection import select
from .suspicions import Finding, suspicions

if TYPE_CHECKING:
    from datasets import Dataset

PAPER_SYSTEM_PROMPT = r"Please reason step by step, and put your final answer within \boxed{}."
"""The system prompt with which the paper's prompts for Qwen begin."""

PROBLEM_COLUMNS = ("problem", "question", "prompt")
"""Columns to look for the problem in, in this order."""

# `solution` mostly holds a worked solution, with the answer in its box.
_ANSWER_COLUMNS = ("answer", "final_answer", "solution")

MOST_PARSED = 1000
"""Most true answers of a data set that are tried on the grader's parser."""


@dataclass(frozen=True)
class DataReport:
    """What became of the rows of a data set.

    Attributes:
        rows: Rows read.
        skipped: Rows that cannot be trained on, with the reason: `"no_problem"`, `"no_answer"`
            (missing, empty, or neither text nor a number), `"messages"` (where prompts are plain
            text), what [`~barl_trl.hypotheses.why_inadmissible`] says of the true answer, or on
            request `"duplicate"` and `"in …"` (the evaluation sets).
        suspicious: Rows that are kept and deserve a look, by
            [`~barl_trl.data.suspicions.SUSPICIONS`].
        contaminated: Rows that are kept and are evaluation problems, with the names of the sets.
    """

    rows: int
    skipped: list[Finding]
    suspicious: list[Finding]
    contaminated: list[Finding] = field(default_factory=list)

    @property
    def kept(self) -> int:
        """Number of rows that can be trained on."""
        return self.rows - len(self.skipped)

    @property
    def has_findings(self) -> bool:
        """Whether any row was left out or deserves a look."""
        return bool(self.skipped or self.suspicious or self.contaminated)

    def __str__(self) -> str:
        """Return the report on one line."""
        parts = [
            ("skipped", self.skipped),
            ("kept, but look at", self.suspicious),
            ("kept, but in evaluation sets", self.contaminated),
        ]
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
    most_parsed: int | None = MOST_PARSED,
    keep_columns: bool = False,
    keep_unanswered: bool = False,
    deduplicate: bool = False,
    evaluation_sets: Mapping[str, Sequence[str]] | None = None,
    decontaminate: Collection[str] = (),
) -> tuple["Dataset", DataReport]:
    """Load problems with their true answers, in the form in which a trainer takes them.

    Args:
        path_or_id: A JSONL, JSON, CSV or Parquet file, a folder of such files, or the id of a data
            set on the Hub.
        split: Split to load; may be a slice such as `"train[:100]"`. The split of a file is called
            `train`.
        config: Configuration of a Hub data set, such as `"main"`.
        problem_column: Column of the problem, text or messages. By default the first of `problem`,
            `question` and `prompt`, in any case.
        answer_column: Column of the true answer, bare or in a worked solution. By default the first
            of `answer`, `final_answer` and `solution`.
        system_prompt: Content of a system message before each problem, such as
            [`PAPER_SYSTEM_PROMPT`]; messages that begin with a system message keep theirs.
        prompt_format: Text of the user message, or of the plain prompt, with `{problem}` in it. In
            messages, the problem is what the user says last.
        conversational: Whether `prompt` is a list of messages, to which the chat template applies,
            or plain text.
        most_parsed: Most true answers that are tried on a grader's parser, to tell which it cannot
            read; None for all, as `barl data check` does. With 0 no row is suspected of anything.
        keep_columns: Whether the other columns stay, for environments, tools and rewards.
        keep_unanswered: Whether rows without a usable true answer stay, with the solution None, for
            credits that need none. Then there need be no column of answers.
        deduplicate: Whether to leave out rows whose problem an earlier row has, whatever their
            answer.
        evaluation_sets: Evaluation problems by the name of their set, whose occurrences are
            counted.
        decontaminate: Names of the evaluation sets whose problems are left out.

    Returns:
        The data set with the columns `prompt` and `solution` (the bare true answer), before the
        others if they are kept, and what became of the rows.

    Raises:
        FileNotFoundError: If there is no such file, or no such data set on the Hub.
        ValueError: If the file cannot be read, a column is missing, or no row can be used.
    """
    if "{problem}" not in prompt_format:
        raise ValueError(
            f"prompt_format must contain {{problem}}, got {prompt_format!r}: "
            "the problem is put there."
        )
    if system_prompt is not None and not conversational:
        raise ValueError(
            f"system_prompt must be None without messages, got {system_prompt!r}: "
            "put it into `prompt_format`, as the model expects it."
        )
    find = partial(
        _find_columns,
        problem_column=problem_column,
        answer_column=answer_column,
        may_lack_answers=keep_unanswered,
    )
    raw = read_rows(path_or_id, split, config, find)
    columns = raw.column_names
    problem_column, answer_column = find(columns)
    cells = list(raw[problem_column])
    problems = [_problem_text(cell) for cell in cells]
    answer_cells = [None] * len(cells) if answer_column is None else raw[answer_column]
    answers = [truth_answer(cell) for cell in answer_cells]
    if keep_unanswered:
        answers = [answer if is_truth(answer) else "" for answer in answers]
    rows = zip(cells, problems, answers, strict=True)
    reasons = [_why_skipped(*row, conversational=conversational) for row in rows]
    if keep_unanswered:
        reasons = [None if reason == "no_answer" else reason for reason in reasons]
    left_out, found_in = select(
        _without(problems, reasons),
        deduplicate=deduplicate,
        evaluation_sets=evaluation_sets or {},
        decontaminate=decontaminate,
    )
    reasons = [a or b for a, b in zip(reasons, left_out, strict=True)]
    suspected = suspicions(_without(problems, reasons), answers, most_parsed=most_parsed)
    report = DataReport(
        rows=len(raw),
        skipped=_findings(reasons, answers),
        suspicious=_findings(suspected, answers),
        contaminated=_findings(_without(found_in, reasons), answers),
    )
    if not report.kept:
        raise ValueError(
            f"{path_or_id} must have at least one usable row, got {report}: check `problem_column` "
            f"({problem_column!r}) and `answer_column` ({answer_column!r})."
        )
    prompts = []
    kept = [place for place, reason in enumerate(reasons) if not reason]
    for place in kept:
        prompt = make_prompt(
            problems[place],
            system_prompt=system_prompt,
            prompt_format=prompt_format,
            conversational=conversational,
        )
        if messages := messages_of(cells[place]):
            *system, last = prompt
            earlier = messages[:-1]
            prompt = [*([] if messages[0]["role"] == "system" else system), *earlier, last]
        prompts.append(prompt)
    from datasets import Dataset, concatenate_datasets  # imported late: they take a second

    usable = Dataset.from_dict({"prompt": prompts, "solution": [answers[k] or None for k in kept]})
    others = [name for name in columns if name not in ("prompt", "solution")]
    if keep_columns and others:
        usable = concatenate_datasets([usable, raw.select(kept).select_columns(others)], axis=1)
    path = Path(path_or_id)
    usable.info.dataset_name = path.name if path.exists() else path_or_id  # for the model card
    return usable, report


def _find_columns(
    columns: Sequence[str],
    problem_column: str | None,
    answer_column: str | None,
    *,
    may_lack_answers: bool,
) -> tuple[str, str | None]:
    """Return the columns of problems and answers; None for the latter where none is needed."""
    problem_column = find_column(columns, "problem_column", problem_column, PROBLEM_COLUMNS)
    has_answers = answer_column or {*_ANSWER_COLUMNS} & {column.lower() for column in columns}
    if has_answers or not may_lack_answers:
        answer_column = find_column(
            columns, "answer_column", answer_column, _ANSWER_COLUMNS, taken=problem_column
        )
    return problem_column, answer_column


def refuse_unloadable(
    path_or_id: str,
    splits: Sequence[str],
    *,
    problem_column: str | None,
    answer_column: str | None,
    keep_unanswered: bool = False,
) -> list[str] | None:
    """Refuse a local file from which [`load_problems`] could load nothing, at once.

    Args:
        path_or_id: The file. Neither other data nor a very large text file is looked at: importing
            what reads it takes a second.
        splits: The splits of it that will be loaded.
        problem_column: Column of the problem; None: the one that [`load_problems`] would find.
        answer_column: Column of the true answer; None: the one that [`load_problems`] would find.
        keep_unanswered: Whether rows need no true answer.

    Returns:
        The columns of the file; None if it was not looked at.

    Raises:
        ValueError: The file cannot be read, or a split or column is missing.
    """
    columns = peek(Path(path_or_id), *splits)
    if columns is not None:
        _find_columns(columns, problem_column, answer_column, may_lack_answers=keep_unanswered)
    return columns


def _why_skipped(cell: Any, problem: str, answer: str, *, conversational: bool) -> str | None:
    if not conversational and messages_of(cell):
        return "messages"
    if not problem:
        return "no_problem"
    return why_inadmissible(answer, max_chars=MAX_TRUTH_CHARS) if answer else "no_answer"


def _without(texts: Sequence[str | None], reasons: Sequence[str | None]) -> list[Any]:
    """Return the texts of the rows that are not left out, "" for the others."""
    return ["" if reason else text for text, reason in zip(texts, reasons, strict=True)]


def _findings(reasons: Sequence[str | None], answers: Sequence[str]) -> list[Finding]:
    numbered = enumerate(zip(reasons, answers, strict=True), 1)
    return [Finding(row, reason, answer) for row, (reason, answer) in numbered if reason]


def make_prompt(
    problem: str, *, system_prompt: str | None, prompt_format: str, conversational: bool
) -> Any:
    """Return a problem's prompt, a text or messages, by the options of [`load_problems`]."""
    # Not str.format: problems and templates are full of TeX braces.
    text = prompt_format.replace("{problem}", problem)
    messages = [("system", system_prompt), ("user", text)]
    conversation = [{"role": role, "content": content} for role, content in messages if content]
    return conversation if conversational else text


def _problem_text(cell: Any) -> str:
    """Return the problem in a cell: its text, or the last message if it is the user's; else ''."""
    messages = messages_of(cell)
    if messages:
        cell = messages[-1]["content"] if messages[-1]["role"] == "user" else None
    return (plain_text(cell) or "").strip()
