"""Data set rows -> `{"prompt", "solution"}`, from the Hub or a local file, whatever its columns."""

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from . import rows as tables
from .graders import choices, verify
from .graders.normal_form import MAX_TRUTH_CHARS, normal_form, why_not_compared, words
from .graders.nouns import apart
from .graders.numbers import number
from .graders.processes import compare
from .hypotheses import is_truth, parsed, plain_text, truth_answer, why_inadmissible
from .rows import PLACEHOLDER, messages_of, problem_text, why_none

if TYPE_CHECKING:
    from datasets import Dataset  # imported late elsewhere: it takes a second

logger = logging.getLogger(__name__)

PAPER_SYSTEM_PROMPT = r"Please reason step by step, and put your final answer within \boxed{}."
"""The system prompt with which the paper's prompts for Qwen begin."""

MOST_PARSED = 1000
"""Most true answers of a data set that are tried on the grader's parser."""

SUSPICIONS = {
    "sentence": "the true answer is a sentence: only the same text will be right",
    "code": "the true answer is code, or a call of a function",
    "options": "the true answer is a letter, and the problem has no such option",
    "unreadable": "no grader reads the true answer: only the same text will be right",
    "duplicate": "an earlier row has the same problem",
    "contradiction": "an earlier row has the same problem with another answer",
}
"""Why a row that is kept deserves a look."""

# reasons of which a report shows the first true answer
_SHOWN = ("placeholder", "sentence", "code", "unreadable", "unbalanced", "too_long")

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
    (missing, empty, neither text nor a number, or none of the options), `"placeholder"` (the cell
    says that there is none), `"messages"` (where prompts are plain text), what
    [`~barl_trl.hypotheses.why_inadmissible`] says, or on request `"duplicate"` and `"in …"` (the
    evaluation sets). Suspicious rows ([`SUSPICIONS`]) and contaminated ones are kept.
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
        for name, title in TITLES.items():
            found: list[Finding] = vars(self)[name]
            shown = [one for one in found[::-1] if one.answer and one.reason in _SHOWN]
            firsts = {one.reason: f" ({one.answer[:40]!r})" for one in shown}
            counts = sorted(Counter(one.reason for one in found).items())
            texts = [f"{number} {reason}{firsts.get(reason, '')}" for reason, number in counts]
            said += [f"{title}: {', '.join(texts)}"] if texts else []
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
        path_or_id: A JSONL, JSON, CSV or Parquet file, perhaps compressed, a folder of such, or an
            id on the Hub.
        split: Split to load, or slices such as `"train[:100]"`. That of a file is `train`.
        config: Configuration of a Hub data set, such as `"main"`.
        problem_column: Where the problem stands, a text or messages: a column, a path into its
            cells such as `extra_info.question`, or a text with `{columns}` in it. None: the first
            of the usual columns (docs/data.md), with a passage that belongs to it.
        answer_column: Where the true answer stands, bare or in a worked solution, likewise. None:
            the first of the usual columns that holds some. Of multiple choice it is a letter.
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
    raw = tables.read_rows(path_or_id, split, config)
    cells, answers, options, names = _find(raw, problem_column, answer_column, keep_unanswered)
    problems = [*map(problem_text, cells)]
    if keep_unanswered:
        answers = [t if is_truth(t) and not PLACEHOLDER.fullmatch(t) else "" for t in answers]
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
    found: Any = reasons, suspected, _without(found_in, reasons)
    findings = (
        [Finding(n, reason, answers[n - 1]) for n, reason in enumerate(of, 1) if reason]
        for of in found
    )
    report = DataReport(len(raw), *findings)
    if not report.kept:
        raise ValueError(f"{path_or_id} must have a usable row, got {report} in {names}.")
    kept = [place for place, reason in enumerate(reasons) if not reason]
    prompt: Any = {"system_prompt": system_prompt, "prompt_format": prompt_format}
    prompt |= {"conversational": conversational}
    prompts = [_with_earlier(cells[k], make_prompt(problems[k], **prompt)) for k in kept]
    solutions, lettered = ([of[k] or None for k in kept] for of in (answers, options))
    usable = _usable(prompts, solutions, lettered, raw.select(kept) if keep_columns else None)
    path = Path(path_or_id)
    usable.info.dataset_name = path.name if path.exists() else path_or_id  # for the model card
    return usable, report


def select(
    dataset: "Dataset", *, problem: str | None = None, answer: str | None = None
) -> "Dataset":
    r"""Return the rows with a `prompt` and a `solution`, as the trainer takes them.

    The problem may be text or messages. The options of multiple choice stand behind it, and the
    true answer is then a letter. No row is left out: a true answer that is missing is None.

    Args:
        dataset: Rows of any columns, which stay.
        problem: Where the problem stands: a column, a path into its cells such as
            `"extra_info.question"`, or a text with `{columns}` in it. None: it is looked for.
        answer: Where the true answer stands, such as `"reward_model.ground_truth"`, likewise.

    Raises:
        ValueError: If there is no such column, or none that looks right.
    """
    cells, answers, options, _ = _find(dataset, problem, answer, may_lack_answers=False)
    return _usable(cells, [text or None for text in answers], options, dataset)


def _usable(prompts: Any, solutions: Any, options: Any, raw: "Dataset | None") -> "Dataset":
    """Return the rows with these columns, and the others that they had."""
    from datasets import Dataset, concatenate_datasets

    columns = {"prompt": prompts, "solution": solutions}
    columns |= {choices.COLUMN: options} if any(options) else {}
    try:
        usable = Dataset.from_dict(columns)
    except (TypeError, ValueError):  # arguments of tool calls that have no type in common
        usable = Dataset.from_dict(columns, on_mixed_types="use_json")
    more = [] if raw is None else [raw.remove_columns([*columns.keys() & {*raw.column_names}])]
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
        messages = messages_of(prompt)
        read = tokenizer.apply_chat_template(messages, **options) if messages else tokenizer(prompt)
        return len(read["input_ids"]) <= most

    short = dataset.filter(fits, input_columns="prompt")
    if not len(short):
        raise ValueError(f"max_prompt_length must leave a row, got {most}: all are longer.")
    if left_out := len(dataset) - len(short):
        text = "%d of %d rows left out: prompt of more than max_prompt_length=%d tokens"
        logger.warning(text, left_out, len(dataset), most)
    return short


# Where the problem and the true answer stand


def _find(
    rows: "Dataset", problem: str | None, answer: str | None, may_lack_answers: bool
) -> tuple[list[Any], list[str], list[Any], str]:
    """Return the problems with their options, the true answers, the options, and where they stand.

    A problem is a text or messages. A row without options has None for them.
    """
    paths = [problem] if problem else tables.PROBLEMS
    of_problem, cells = tables.first_column(rows, "problem_column", paths, tables.questions)
    for name in tables.PASSAGES if problem is None else ():
        for place, text in enumerate(tables.cells_at(rows, name) or ()):
            if isinstance(text, str) and text.strip() and isinstance(cells[place], str):
                cells[place] = f"{text.strip()}\n\n{cells[place]}"
    labelled = tables.find_options(rows, of_problem)
    options = [[*texts.values()] if texts else None for texts in labelled]
    cells = [*map(_with_options, cells, options)]
    usual = tables.CHOSEN if any(options) else tables.ANSWERS
    paths, read = [answer] if answer else usual, partial(_answers, options=labelled)
    if may_lack_answers and not answer and not any(tables.cells_at(rows, path) for path in paths):
        return cells, [""] * len(cells), options, f"{of_problem!r}"
    where, answers = tables.first_column(rows, "answer_column", paths, read, of_problem)
    return cells, answers, options, f"{of_problem!r} and {where!r}"


def _with_options(cell: Any, options: Sequence[str] | None) -> Any:
    text = problem_text(cell)
    if not (options and text):
        return cell
    text = choices.with_options(text, options)
    return text if isinstance(cell, str) else [*cell[:-1], cell[-1] | {"content": text}]


def _with_earlier(cell: Any, prompt: Any) -> Any:
    """Return a prompt behind the earlier messages of its cell, whose system message comes first."""
    if not isinstance(cell, list):
        return prompt
    system = [] if cell[0]["role"] == "system" else prompt[:-1]
    return [*system, *cell[:-1], cell[-1] | prompt[-1]]


def _answers(path: str, cells: Sequence[Any], options: Sequence[Any]) -> list[str]:
    """Return the true answer in each cell, "" for none: the letter of an option, where it has."""
    if not any(options):
        return [*map(truth_answer, cells)]
    letters = choices.letters_of([plain_text(parsed(cell)) for cell in cells], options)
    pairs = zip(cells, letters, options, strict=True)
    return [(letter or "") if texts else truth_answer(cell) for cell, letter, texts in pairs]


# Rows that are left out, and rows that deserve a look


def _why_skipped(
    cell: Any, problem: str, answer: str, conversational: bool, keep_unanswered: bool
) -> str | None:
    if not conversational and isinstance(cell, list):
        return "messages"
    if not problem:
        return "no_problem"
    if not answer:
        return None if keep_unanswered else "no_answer"
    if PLACEHOLDER.fullmatch(answer):
        return "placeholder"
    return why_inadmissible(answer, max_chars=MAX_TRUTH_CHARS)


def _without(texts: Sequence[str | None], reasons: Sequence[str | None]) -> list[Any]:
    """Return the texts of the rows that are not left out, "" for the others."""
    return ["" if reason else text for text, reason in zip(texts, reasons, strict=True)]


def _suspicions(
    problems: Sequence[str], answers: Sequence[str], most_parsed: int | None
) -> list[str | None]:
    """Return why each row deserves a look; None if it does not, or has an empty problem."""
    reasons: list[str | None] = [None] * len(problems)
    looked_at = [place for place, problem in enumerate(problems) if problem and most_parsed != 0]
    unread = unreadable([answers[k] for k in looked_at if answers[k]], most_parsed)
    firsts: dict[str, int] = {}
    for place in looked_at:
        answer, key = answers[place], _key(problems[place])
        first, letter = firsts.setdefault(key, place), re.fullmatch(r"\(?([A-Ja-d])\)?", answer)
        if why := why_none(answer):
            reasons[place] = why
        elif letter and not re.search(rf"(?i)\b{letter[1]} ?[.:)\]}}]", problems[place]):
            reasons[place] = "options"
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
