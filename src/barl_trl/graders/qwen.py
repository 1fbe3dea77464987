"""The conventions of the Qwen2.5-Math evaluation; docs/graders.md lists what differs on purpose."""

import math
import re
from itertools import accumulate

from .default import same_value
from .grader import Verdict
from .normal_form import normal_form, words
from .nouns import SPELLED, apart
from .numbers import Tolerance, number

VERSION = "5"

_NEAR = Tolerance(math.inf, 1e-4, is_percent=True)
_NAME = re.compile(
    r"\A[^\W\d_][A-Za-z' ]?=(?!=)(?=[^=]*\Z)"
    r"|(?:\A|(?<=[,;({[])|(?<=or )|(?<=\{or\}))[xyz](?:=(?!=)|\\in(?![A-Za-z]))"
)
_DELETED = re.compile(r"\^\\circ|\\?[$%]|\\text\{(?! ?or ?\})[^{}]*\}|(?<=\d)\.0*(?!\d)")
_BRACKETED = re.compile(r"(?<!sqrt)[([]([^][(),]*+,[^][()]*+)[])]")
_BASE = re.compile(r"(?<=[0-9A-F])_\{?(\d+)\}?")


def extract_answer(text: str) -> str | None:
    r"""Return the answer of a completion, normalised; None if nothing is left of it.

    The first of these decides: Minerva's "final answer is $…$. I hope", the last `boxed`, the last
    "he answer is", the last "final answer is", the first 答案是; else the last number.
    """
    answer = re.sub(r"\n\s*", "", _raw_answer(text.replace("ки", "")).strip())  # a slip of Qwen's
    return _lenient_form(answer.removeprefix(":").removesuffix(".").removesuffix("/")) or None


def _raw_answer(text: str) -> str:
    """Return the answer as it stands in a text, "" if there is none."""
    if "final answer is $" in text and "$. I hope" in text:
        return text.partition("final answer is $")[2].partition("$. I hope")[0]
    if "boxed" in text:
        box = text.rpartition("boxed")[2]
        depths = list(accumulate((one == "{") - (one == "}") for one in box))
        end = depths.index(0) if 0 in depths else None
        return box[1:end] if box.startswith("{") else box.partition("$")[0]
    for trigger in ("he answer is", "final answer is"):
        if trigger in text:
            return text.rpartition(trigger)[2]
    if "答案是" in text:
        return text.split("答案是")[1].strip().partition("\n\n")[0]
    return (re.findall(r"-?[0-9]*\.?[0-9]+", text.replace(",", "")) or [""])[-1]


def _lenient_form(answer: str) -> str:
    """Return the normal form without units, `%`, names, decimal zeros and kinds of brackets."""
    form = normal_form(answer)
    core = apart(form)[0] if len(form) <= 2048 else form
    form = core if form.startswith(core) else form  # words in front count
    if spelled := words(form):
        return str(SPELLED.index(spelled)) if spelled in SPELLED else spelled
    for pattern, new in ((_DELETED, ""), (_NAME, ""), (_BRACKETED, r"(\1)")):
        form = pattern.sub(new, form).strip() or form
    is_list = "," in form and form[0] not in "([{\\" and number(form) is None
    return f"({form})" if is_list else form  # bare lists are in order


def verify(gold: str, answer: str) -> Verdict:
    """Return whether an answer is the true one, a hundredth of it or 100 times it."""
    truth, claimed = _lenient_form(gold), _lenient_form(answer)
    if not truth or not claimed:
        return Verdict(False, "empty")
    if re.fullmatch("[A-E]", truth):
        return Verdict(re.findall(r"\b[A-E]\b", answer.upper())[-1:] == [truth], "choices")
    bases = [_BASE.findall(side) for side in (gold, answer)]
    if all(bases) and bases[0] != bases[1]:
        return Verdict(False, "bases")
    if truth.lower() == claimed.lower():
        return Verdict(True, "equal strings")
    if words(truth) or words(claimed) or truth.count("'") != claimed.count("'"):
        return Verdict(False, "words")
    return same_value(truth, claimed, _NEAR)
