"""The default grader: strings first, then a parser in a process that can be killed."""

import re

from .claims import claims
from .grader import Verdict
from .limits import MAX_TRUTH_CHARS, why_not_compared
from .normal_form import TEXT, normal_form, words
from .nouns import apart, words_against
from .numbers import Tolerance, number
from .processes import compare

VERSION = "6"

_CHOICE = re.compile(r"\(?(?:(?:\\text)?\{)?\(?([A-Ja-j])\)?\}?\)?")
_CHOICES = re.compile(r"(?<![A-Za-z\\])[A-J](?![A-Za-z])")
_LABEL = re.compile(  # `(B) 20`, without another label or a doubt
    r"[({ ]{0,3}(?:\\text\{ ?)?(?:(?:the )?(?:option|choice|answer)(?: is|:)? )?"
    r"[({]{0,3}([A-J])(?:[)}. ]{0,3}|[)}]{0,3}[).:]"
    r"[} ]{0,3}(?=[a-z0-9$({.-]|\\(?:frac|sqrt|text|pi|\$))"
    rf"(?!.*\b(?:or|isn?|wrong|incorrect|maybe)\b)(?-i:(?!.*{_CHOICES.pattern})).*)",
    re.IGNORECASE | re.DOTALL,
)
_TIME = re.compile(r"\d{1,2}:\d\d")


def verify(gold: str, answer: str) -> Verdict:
    """Return whether an answer is the true one. The relation is not symmetric, nor transitive.

    Equal strings, choices and words decide first, then each claim: words beside it, plain numbers,
    refusal of what could cost seconds, the parser. A time-out or a crash is a "no".

    Example:
        >>> verify("6", "5=6")
        Verdict(correct=False, reason='numbers')
    """
    truth, given = normal_form(gold), normal_form(answer)
    if not truth or not given:
        return Verdict(False, "empty")
    if TEXT.sub(r" \1 ", truth).split() == TEXT.sub(r" \1 ", given).split():
        return Verdict(True, "equal strings")
    gold_choice, choice = _CHOICE.fullmatch(truth), _LABEL.fullmatch(given)
    if gold_choice and choice:
        return Verdict(gold_choice[1].upper() == choice[1].upper(), "choices")
    if gold_choice and {*_CHOICES.findall(given)} - {gold_choice[1].upper()}:  # C = B
        return Verdict(False, "choices")
    if (gold_words := words(truth)) is not None:
        return Verdict(gold_words == words(given), "words")
    if max(len(truth), len(given)) > MAX_TRUTH_CHARS:
        return Verdict(False, "refused: length")
    value, values = claims(truth, given)
    is_rounded = r"\approx" in given and len(values) > 1
    verdicts = [_same_value(value, claim, is_rounded=is_rounded) for claim in values]
    return next((verdict for verdict in verdicts if not verdict), verdicts[0])


def _same_value(truth: str, given: str, *, is_rounded: bool) -> Verdict:
    (true, true_words), (claim, own_words) = apart(truth), apart(given)
    if against := words_against(true_words, own_words):
        return Verdict(False, against)
    if any("base" in word for word in true_words + own_words) and re.search("[A-F]", true + claim):
        return Verdict(true == claim, "bases")  # a parser multiplies the digits of 2A_{16}
    if _TIME.fullmatch(claim) and true != claim and (":" not in true or _TIME.fullmatch(true)):
        return Verdict(False, "times")  # 6:15 is not 12:30, as ratios are
    return same_value(true, claim, Tolerance.of(true, claim, is_rounded=is_rounded))


def same_value(gold: str, answer: str, near: Tolerance) -> Verdict:
    """Return whether two normal forms without words are equal strings, numbers, or to a parser."""
    if gold == answer:
        return Verdict(True, "equal strings")
    true, given = number(gold), number(answer)
    if true is not None and (given is not None or answer.replace(",", ".") == gold):  # 2,75
        return Verdict(given is None or near.allows(true, given), "numbers")
    for side, form in (("gold", gold), ("answer", answer)):
        if why := why_not_compared(form, gold):
            return Verdict(False, f"{side} refused: {why}")
    outcome = compare(gold, answer, near)
    return Verdict(outcome == "equal", outcome if outcome in ("timeout", "crash") else "parser")
