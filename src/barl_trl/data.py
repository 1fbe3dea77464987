"""Data set rows -> `{"prompt", "solution"}`, from the Hub or a local file, whatever its columns.

Local JSON and CSV files are read here and not by `datasets`, which infers a type for each column:
it rounds long answers to floats, makes dates of `"2024-01-01"`, drops `NA`, and stops at a file
whose answers are numbers in its first 10 MB and text later. Here an answer is the file's own text.
"""

import csv
import io
import json
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .graders import verify
from .graders.normal_form import MAX_TRUTH_CHARS, normal_form, why_not_compared, words
from .graders.nouns import apart
from .graders.numbers import number
from .graders.processes import compare
from .hypotheses import is_truth, plain_text, truth_answer, why_inadmissible

if TYPE_CHECKING:
    from datasets import Dataset  # imported late elsewhere: it takes a second

logger = logging.getLogger(__name__)

PAPER_SYSTEM_PROMPT = r"Please reason step by step, and put your final answer within \boxed{}."
"""The system prompt with which the paper's prompts for Qwen begin."""

PROBLEM_COLUMNS = ("problem", "question", "prompt")
"""Columns to look for the problem in, in this order."""

# `solution` mostly holds a worked solution, with the answer in its box
_ANSWER_COLUMNS = ("answer", "final_answer", "solution")
_SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")

MOST_PARSED = 1000
"""Most true answers of a data set that are tried on the grader's parser."""

SUSPICIONS = {
    "unreadable": "no grader reads the true answer: only the same text will be right",
    "placeholder": "the true answer says that there is none",
    "duplicate": "an earlier row has the same problem",
    "contradiction": "an earlier row has the same problem with another answer",
}
"""Why a row that is kept deserves a look."""

_PLACEHOLDER = re.compile(
    r"n/?a|none|null|nan|unknown|tbd|todo|see (?:the )?(?:solution|above|proof)|proof|\?+|-+|\.+",
    re.IGNORECASE,
)


TITLES = {
    "skipped": "skipped",
    "suspicious": "kept, but look at",
    "contaminated": "kept, but in evaluation sets",
}


class Finding(NamedTuple):
    """A row, counted from 1, and what is wrong with it."""

    row: int
    reason: str
    answer: str


@dataclass(frozen=True)
class DataReport:
    """What became of the rows of a data set.

    Rows are skipped that cannot be trained on, with the reason: `"no_problem"`, `"no_answer"`
    (missing, empty, or neither text nor a number), `"messages"` (where prompts are plain text),
    what [`~barl_trl.hypotheses.why_inadmissible`] says of the true answer, or on request
    `"duplicate"` and `"in …"` (the evaluation sets). Of those that are kept, suspicious ones
    deserve a look ([`SUSPICIONS`]), and contaminated ones are in evaluation sets.
    """

    rows: int
    skipped: list[Finding]
    suspicious: list[Finding]
    contaminated: list[Finding]

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
        said = []
        for name in ("skipped", "suspicious", "contaminated"):
            counts = sorted(Counter(finding.reason for finding in vars(self)[name]).items())
            if counts:
                texts = ", ".join(f"{count} {reason}" for reason, count in counts)
                said.append(f"{TITLES[name]}: {texts}")
        return f"{self.kept} of {self.rows} rows kept" + (f" ({'; '.join(said)})" if said else "")


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
        path_or_id: A JSONL, JSON, CSV or Parquet file, a folder of such, or an id on the Hub.
        split: Split to load, or slices such as `"train[:100]"`. That of a file is `train`.
        config: Configuration of a Hub data set, such as `"main"`.
        problem_column: Column of the problem, text or messages. None: the first of `problem`,
            `question` and `prompt`, in any case.
        answer_column: Column of the true answer, bare or in a worked solution. None: the first of
            `answer`, `final_answer` and `solution`.
        system_prompt: System message before each problem, such as [`PAPER_SYSTEM_PROMPT`]; a
            conversation that begins with one keeps its own.
        prompt_format: Text of the (last) user message, or of the prompt, with `{problem}` in it.
        conversational: Whether `prompt` is a list of messages, for the chat template, or a text.
        most_parsed: Most true answers that are tried on a grader's parser; None for all. With 0 no
            row is suspected of anything.
        keep_columns: Whether the other columns stay, for environments, tools and rewards.
        keep_unanswered: Whether rows without a usable true answer stay, with the solution None.
        deduplicate: Whether to leave out rows whose problem an earlier row has.
        evaluation_sets: Evaluation problems by the name of their set: occurrences are counted.
        decontaminate: Names of the evaluation sets whose problems are left out.

    Returns:
        The data set with `prompt`, `solution` (the bare true answer) and what columns are kept, and
        what became of the rows.

    Raises:
        FileNotFoundError: If there is no such file, or no such data set on the Hub.
        ValueError: If the file cannot be read, a column is missing, or no row can be used.
    """
    if "{problem}" not in prompt_format:
        raise ValueError(f"prompt_format must have {{problem}} in it, got {prompt_format!r}.")
    if system_prompt is not None and not conversational:
        raise ValueError("system_prompt must be None without messages: put it into prompt_format.")
    names = problem_column, answer_column
    find = partial(_find_columns, names=names, may_lack_answers=keep_unanswered)
    raw = _read_rows(path_or_id, split, config, find)
    of_problems, of_answers = find(raw.column_names)
    cells = [*raw[of_problems]]
    problems = [*map(_problem_text, cells)]
    answers = [truth_answer(cell) for cell in (raw[of_answers] if of_answers else cells)]
    if keep_unanswered:
        answers = [text if of_answers and is_truth(text) else "" for text in answers]
    rows = zip(cells, problems, answers, strict=True)
    reasons = [_why_skipped(*row, conversational, keep_unanswered) for row in rows]
    if unknown := {*decontaminate} - {*(evaluation_sets or ())}:
        raise ValueError(f"decontaminate must name evaluation_sets, got {sorted(unknown)}.")
    found_in = contamination(_without(problems, reasons), evaluation_sets or {})
    seen = set[str]()
    for place, (key, sets) in enumerate(zip(map(_key, problems), found_in, strict=True)):
        if sets and not {*sets.split("+")}.isdisjoint(decontaminate):
            reasons[place] = f"in {sets}"
        elif deduplicate and not reasons[place]:
            reasons[place] = "duplicate" if key in seen else None
            seen.add(key)
    suspected = _suspicions(_without(problems, reasons), answers, most_parsed)
    findings = (
        [Finding(row, reason, answer) for row, (reason, answer) in numbered if reason]
        for of in (reasons, suspected, _without(found_in, reasons))
        for numbered in [enumerate(zip(of, answers, strict=True), 1)]
    )
    report = DataReport(len(raw), *findings)
    if not report.kept:
        raise ValueError(
            f"{path_or_id} must have a usable row, got {report} in the columns {of_problems!r} "
            f"and {of_answers!r}."
        )
    kept = [place for place, reason in enumerate(reasons) if not reason]
    make: Any = partial(make_prompt, system_prompt=system_prompt, prompt_format=prompt_format)
    texts = (make(problems[k], conversational=conversational) for k in kept)
    prompts = [_with_earlier(cells[k], text) for k, text in zip(kept, texts, strict=True)]
    columns = {"prompt": prompts, "solution": [answers[k] or None for k in kept]}
    usable = _usable(columns, raw.select(kept) if keep_columns else None)
    path = Path(path_or_id)
    usable.info.dataset_name = path.name if path.exists() else path_or_id  # for the model card
    return usable, report


def _usable(columns: dict[str, Any], raw: "Dataset | None") -> "Dataset":
    """Return the rows with these columns, and the others that they had."""
    from datasets import Dataset, concatenate_datasets

    usable = Dataset.from_dict(columns)
    others = [name for name in raw.column_names if name not in columns] if raw else []
    more = [raw.select_columns(others)] if raw and others else []
    return concatenate_datasets([usable, *more], axis=1)


def make_prompt(
    problem: str, *, system_prompt: str | None, prompt_format: str, conversational: bool
) -> Any:
    """Return a problem's prompt, a text or messages, by the options of [`load_problems`]."""
    # not str.format: problems and templates are full of TeX braces
    text = prompt_format.replace("{problem}", problem)
    messages = [("system", system_prompt), ("user", text)]
    conversation = [{"role": role, "content": content} for role, content in messages if content]
    return conversation if conversational else text


def with_short_prompts(
    dataset: "Dataset", tokenizer: Any, most: int | None, **template_kwargs: Any
) -> "Dataset":
    """Return the rows whose prompt has at most `most` tokens, or raise a ValueError without any."""
    if most is None:
        return dataset
    options: Any = {"add_generation_prompt": True, "return_dict": True, **template_kwargs}

    def fits(prompt: Any) -> bool:
        is_text = isinstance(prompt, str)
        read = tokenizer(prompt) if is_text else tokenizer.apply_chat_template(prompt, **options)
        return len(read["input_ids"]) <= most

    short = dataset.filter(fits, input_columns="prompt")
    if not len(short):
        raise ValueError(f"max_prompt_length must leave a row, got {most}: all are longer.")
    if len(short) < len(dataset):
        left_out = f"{len(dataset) - len(short)} of {len(dataset)} rows left out"
        logger.warning("%s: prompt of more than max_prompt_length=%d tokens", left_out, most)
    return short


# Rows and columns as they stand


def _find_columns(
    columns: Sequence[str], names: Sequence[str | None], *, may_lack_answers: bool
) -> list[Any]:
    """Return the columns of problems and answers; None for the latter where none is needed."""
    found: list[str | None] = []
    candidates = {"problem_column": PROBLEM_COLUMNS, "answer_column": _ANSWER_COLUMNS}
    for (option, usual), wanted in zip(candidates.items(), names, strict=True):
        others = [column for column in columns if column not in found]
        by_name = {column.lower(): column for column in others} | {c: c for c in others}
        keys = usual if wanted is None else (wanted, wanted.lower())
        match = next((by_name[key] for key in keys if key in by_name), None)
        is_needed = wanted is not None or not found or not may_lack_answers
        if match is None and is_needed:
            raise ValueError(
                f"{option} must be a column of the data set, got {wanted or ' | '.join(usual)!r} "
                f"with the columns {', '.join(columns)}: name the one with {option}."
            )
        found.append(match)
    return found


def _read_rows(path_or_id: str, split: str, config: str | None, find_texts: Any) -> "Dataset":
    """Read a data set as it stands; `find_texts` tells which columns of files must be texts."""
    from datasets import load_dataset, load_dataset_builder
    from datasets.exceptions import DatasetGenerationError

    path = Path(path_or_id)
    if path.suffix in _SUFFIXES and not path.exists():  # it would be taken for a Hub id
        raise FileNotFoundError(f"path_or_id must name an existing file, got {path}.")
    if path.is_file() and path.suffix in _SUFFIXES[:3]:
        return _read_text_files({"train": [path_or_id]}, split, find_texts)
    if path.is_file() and path.suffix != ".parquet":
        raise ValueError(f"path_or_id must end in {', '.join(_SUFFIXES)}, got {path}.")
    try:
        if path.is_file():
            return load_dataset("parquet", data_files=str(path), split=split)
        if path.is_dir():
            files: Any = load_dataset_builder(path_or_id, config).config.data_files
            if all(name.endswith(_SUFFIXES[:3]) for names in files.values() for name in names):
                return _read_text_files(files, split, find_texts)
        return load_dataset(path_or_id, config, split=split)
    except (DatasetGenerationError, ValueError) as error:  # the first does not say why
        raise ValueError(f"{path} must be readable, got {error.__cause__ or error}.") from None


def _read_text_files(files: Mapping[Any, Any], split: str, find_texts: Any) -> "Dataset":
    """Read JSON arrays, JSON lines or CSV files; a line that is no row has None in all columns."""
    from datasets import Dataset, ReadInstruction

    rows = {str(name): [row for file in of for row in _rows_of(file)] for name, of in files.items()}
    columns = [*dict.fromkeys(column for of in rows.values() for row in of for column in row)]
    if not columns:
        raise ValueError(f"path_or_id must name a file with rows, got {[*files.values()]}.")
    instruction = ReadInstruction.from_spec(split)
    parts = instruction.to_absolute({name: len(of) for name, of in rows.items()})
    chosen = [row for part in parts for row in rows[part.splitname][part.from_ : part.to]]
    texts, cells = find_texts(columns), {c: [row.get(c) for row in chosen] for c in columns}
    made = {c: _texts(of) if c in texts else _values(of) for c, of in cells.items()}
    return Dataset.from_dict(made)


def _rows_of(file: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file; a line that is none is named in a warning, and has no cells."""
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
        lines = _csv_rows(text) if file.endswith(".csv") else _json_rows(text)
        for line, row in lines:
            if isinstance(row, str):
                logger.warning("%s:%d is no row of the data set: %s", file, line, row)
            yield {} if isinstance(row, str) else row
    except (RecursionError, ValueError) as error:  # a UnicodeDecodeError is one
        raise ValueError(f"{file} must be readable, got {error}.") from None


def _json_rows(text: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Yield the objects of a JSON array or of JSON lines, or what is wrong with one."""
    parse = partial(json.loads, parse_float=Decimal)  # an answer 0.10 or 1e-7 keeps its digits
    is_array = text.lstrip().startswith("[")
    items = parse(text) if is_array else text.split("\n")
    for line, item in enumerate(items, 1):
        try:
            if is_array or item.strip():
                row = item if is_array else parse(item)
                yield line, row if isinstance(row, dict) else f"{row!r:.40}"
        except (RecursionError, ValueError) as error:
            yield line, str(error)


def _csv_rows(text: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    reader = csv.DictReader(io.StringIO(text))
    while True:
        try:
            row = next(reader)
            is_whole = None not in row and None not in row.values()
            yield reader.line_num, row if is_whole else "other cells than the header: unquoted?"
        except csv.Error as error:  # a cell of more than 128 KiB
            yield reader.line_num, str(error)
        except StopIteration:
            return


def _messages_of(value: Any) -> list[dict[str, str]] | None:
    """Return the roles and texts of the messages that a cell holds; None if it holds none."""
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        return None
    messages = [{name: message.get(name) for name in ("role", "content")} for message in value]
    texts = [text for message in messages for text in message.values()]
    return messages if messages and all(isinstance(text, str) for text in texts) else None


def _texts(cells: list[Any]) -> list[Any]:
    """Return cells as messages if the first holds some, else as texts; None for other cells."""
    first = next((cell for cell in cells if cell is not None), None)
    return [*map(_messages_of if _messages_of(first) else plain_text, cells)]


def _values(cells: list[Any]) -> Any:
    """Return the cells of a column as texts, or as they stand if some are lists or objects.

    Beside lists of texts and numbers, one alone is a list of one. What has no common type becomes
    text: the items of such lists, and other cells as JSON.
    """
    if not any(isinstance(cell, list | dict) for cell in cells):
        return [*map(plain_text, cells)]
    from datasets import Dataset

    lists = [cell if cell is None or isinstance(cell, list) else [cell] for cell in cells]
    is_flat = not any(isinstance(item, list | dict) for cell in lists for item in cell or ())
    texts = [json.dumps(cell, default=float) for cell in (lists if is_flat else cells)]
    try:
        return Dataset.from_dict({"_": [*map(json.loads, texts)]}).data.column(0)
    except (ArithmeticError, RuntimeError, TypeError, ValueError):  # mixed, too large or too deep
        if is_flat:
            return [cell and [*map(plain_text, cell)] for cell in lists]
        return [None if text == "null" else text for text in texts]


def _problem_text(cell: Any) -> str:
    """Return the problem in a cell: its text, or the last message if it is the user's; else ''."""
    if messages := _messages_of(cell):
        cell = messages[-1]["content"] if messages[-1]["role"] == "user" else None
    return (plain_text(cell) or "").strip()


def _with_earlier(cell: Any, prompt: Any) -> Any:
    """Return a prompt behind the earlier messages of its cell, whose system message comes first."""
    if not (messages := _messages_of(cell)):
        return prompt
    system = [] if messages[0]["role"] == "system" else prompt[:-1]
    return [*system, *messages[:-1], prompt[-1]]


# Rows that are left out, and rows that deserve a look


def _why_skipped(
    cell: Any, problem: str, answer: str, conversational: bool, keep_unanswered: bool
) -> str | None:
    if not conversational and _messages_of(cell):
        return "messages"
    if not problem:
        return "no_problem"
    if not answer:
        return None if keep_unanswered else "no_answer"
    return why_inadmissible(answer, max_chars=MAX_TRUTH_CHARS)


def _without(texts: Sequence[str | None], reasons: Sequence[str | None]) -> list[Any]:
    """Return the texts of the rows that are not left out, "" for the others."""
    return ["" if reason else text for text, reason in zip(texts, reasons, strict=True)]


def _suspicions(
    problems: Sequence[str], answers: Sequence[str], most_parsed: int | None
) -> list[str | None]:
    """Return why each row deserves a look; None if it does not, or has an empty problem."""
    reasons: list[str | None] = [None] * len(problems)
    if most_parsed == 0:
        return reasons
    looked_at = [place for place, problem in enumerate(problems) if problem]
    unread = unreadable([answers[k] for k in looked_at if answers[k]], most_parsed)
    firsts: dict[str, int] = {}
    for place in looked_at:
        answer, key = answers[place], _key(problems[place])
        first = firsts.setdefault(key, place)
        if _PLACEHOLDER.fullmatch(answer):
            reasons[place] = "placeholder"
        elif answer in unread:
            reasons[place] = "unreadable"
        elif first != place:
            is_same = not (answers[first] and answer) or verify(answers[first], answer)
            reasons[place] = "duplicate" if is_same else "contradiction"
        if not answers[first]:
            firsts[key] = place  # later answers are compared with the first that there is
    return reasons


def _key(problem: str) -> str:
    """Return what equal problems have in common: all but spaces and capitals."""
    return " ".join(problem.split()).casefold()


def unreadable(answers: Sequence[str], most_parsed: int | None) -> set[str]:
    """Return the answers that are neither words nor a number, and that no parser reads."""
    forms = {answer: apart(normal_form(answer))[0] for answer in dict.fromkeys(answers)}
    unclear = [a for a, form in forms.items() if words(a) is None and number(form) is None]
    refused = {answer for answer in unclear if why_not_compared(forms[answer], forms[answer])}
    to_parse = [answer for answer in unclear if answer not in refused][:most_parsed]
    with ThreadPoolExecutor(compare.size) as threads:
        outcomes = threads.map(lambda answer: compare(forms[answer], forms[answer]), to_parse)
        parsed = {a for a, outcome in zip(to_parse, outcomes, strict=True) if outcome == "equal"}
    return refused | ({*to_parse} - parsed)


def contamination(
    problems: Sequence[str], evaluation_sets: Mapping[str, Sequence[str]]
) -> list[str | None]:
    """Return the names of the evaluation sets that each problem is in, joined by +; None for none.

    A problem is in a set if its words are those of one there, or if both share a run of 10 words
    and 60 % of the evaluation problem's words stand in the problem. (The "find m + n" sentence of
    competitions is half of some problems.) Signs of arithmetic are words, other punctuation is not.
    """
    held_out = [(name, _words(text)) for name, texts in evaluation_sets.items() for text in texts]
    places = defaultdict[str, set[int]](set)  # of all words of a problem, and of its runs of 10
    for place, (_, theirs) in enumerate(held_out):
        for run in _runs(theirs):
            places[run].add(place)
    found: list[str | None] = []
    for own in map(_words, problems):
        near = {place for run in places.keys() & _runs(own) for place in places[run]}
        shares = {k: (Counter(held_out[k][1]) & Counter(own)).total() for k in sorted(near)}
        same = [k for k, share in shares.items() if share > 0.6 * len(held_out[k][1])]
        found.append("+".join(dict.fromkeys(held_out[k][0] for k in same)) or None)
    return found


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+|[-+*/=<>^%!|]", text.casefold())


def _runs(of: Sequence[str]) -> set[str]:
    runs = {" ".join(of[k : k + 10]) for k in range(len(of) - 9)}
    return runs | ({f"all: {' '.join(of)}"} if of else set())
