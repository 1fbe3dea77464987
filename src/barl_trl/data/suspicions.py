"""What is wrong with the rows of a data set: what nobody can train on, and what deserves a look."""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ..graders import verify
from ..graders.normal_form import normal_form, why_not_compared, words
from ..graders.nouns import apart
from ..graders.numbers import number
from ..graders.processes import compare

_MAX_PROBLEM_CHARS = 10_000
_PLACEHOLDER = re.compile(
    r"n/?a|none|null|nan|unknown|tbd|todo|see (?:the )?(?:solution|above|proof)|proof|\?+|-+|\.+",
    re.IGNORECASE,
)

SUSPICIONS = {
    "unreadable": "no grader reads the true answer: only the same text will be right",
    "placeholder": "the true answer says that there is none",
    "repeats_problem": "the true answer is the problem",
    "long_problem": f"the problem has more than {_MAX_PROBLEM_CHARS} characters",
    "garbled": "replacement characters: the text was decoded wrongly",
    "duplicate": "an earlier row has the same problem",
    "contradiction": "an earlier row has the same problem with another answer",
}
"""Why a row that is kept deserves a look."""


class Finding(NamedTuple):
    """A row, counted from 1, and what is wrong with it."""

    row: int
    reason: str
    answer: str


def suspicions(
    problems: Sequence[str], answers: Sequence[str], *, most_parsed: int | None = None
) -> list[str | None]:
    """Return why each row deserves a look, one of [`SUSPICIONS`]; None if it does not.

    Rows with an empty problem are not looked at. Only the first `most_parsed` answers are tried on
    a parser, some milliseconds each; None: all. With 0, nothing is looked at. An empty answer is
    none.
    """
    reasons: list[str | None] = [None] * len(problems)
    if most_parsed == 0:
        return reasons
    looked_at = [place for place, problem in enumerate(problems) if problem]
    given = [answers[place] for place in looked_at if answers[place]]
    unread = unreadable(given, most_parsed)
    firsts: dict[str, int] = {}
    for place in looked_at:
        problem, answer = problems[place], answers[place]
        reason = _suspicion(problem, answer) or ("unreadable" if answer in unread else None)
        key = problem_key(problem)
        first = firsts.setdefault(key, place)
        if reason is None and first != place:
            is_same = not (answers[first] and answer) or verify(answers[first], answer)
            reason = "duplicate" if is_same else "contradiction"
        if not answers[first]:
            firsts[key] = place  # later answers are compared with the first that there is
        reasons[place] = reason
    return reasons


def problem_key(problem: str) -> str:
    """Return what equal problems have in common: all but spaces and capitals."""
    return " ".join(problem.split()).casefold()


def _suspicion(problem: str, answer: str) -> str | None:
    if _PLACEHOLDER.fullmatch(answer):
        return "placeholder"
    if answer == problem:
        return "repeats_problem"
    if len(problem) > _MAX_PROBLEM_CHARS:
        return "long_problem"
    return "garbled" if "\ufffd" in problem + answer else None


def unreadable(answers: Sequence[str], most_parsed: int | None) -> set[str]:
    """Return the answers that are neither words nor a number, and that no parser reads."""
    forms = {answer: apart(normal_form(answer))[0] for answer in dict.fromkeys(answers)}
    unclear = {
        answer: form
        for answer, form in forms.items()
        if words(answer) is None and number(form) is None
    }
    refused = {answer for answer, form in unclear.items() if why_not_compared(form, form)}
    to_parse = [answer for answer in unclear if answer not in refused][:most_parsed]
    with ThreadPoolExecutor(compare.size) as threads:
        outcomes = threads.map(lambda answer: compare(forms[answer], forms[answer]), to_parse)
        parsed = {a for a, outcome in zip(to_parse, outcomes, strict=True) if outcome == "equal"}
    return refused | (set(to_parse) - parsed)
