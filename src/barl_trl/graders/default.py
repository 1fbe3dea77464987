"""The default grader: strings first, then a parser in a process that can be killed."""

import re

from .grader import Verdict
from .normal_form import MAX_TRUTH_CHARS, TEXT, normal_form, why_not_compared, words
from .nouns import apart, words_against
from .numbers import Tolerance, number
from .processes import FAILURES, compare

VERSION = "8"

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

# An equals sign, but not inside braces (`k=1` of a sum) or in `x != 3`. `3! = 6` has one.
_EQUALS = re.compile(r"(?:(?<![<>:=])(?<![^\d)}]!)==?(?!=)|\\approx(?![A-Za-z]))(?![^{}]*\})")
# A remainder, a sum or an integral is what the problem asks for, so it names its value.
_ASKED = re.compile(r"\\(?:[bp]?mod|sum|prod|i*nt|lim)(?![a-z])|\\begin\{vmatrix\}")
_NO_NAME = re.compile(r"\A-|\d|[<>]|\\(?:l|g|n)eq?(?![A-Za-z])|\b(?:or|not|no|wrong)\b")
_LETTER = re.compile(r"\\(?!pi|frac|sqrt|cdot|times)[a-z]{2}")  # \lambda
_INDEX = re.compile(r"\^\{-1\}|_(?:\{[^{}]*\}|\w)|[A-Za-z]\([^()]*\)")
_SEVERAL = re.compile(r"\b(?:or|and)\b|[,;]|\\(?:lor|vee|land|wedge|pm|mp|cup|in)(?![A-Za-z])")
_BRACKETS = re.compile(r"[(\[][^()\[\]]*[)\]]")
_POINT = re.compile(r"\A[A-Z] ?(?=\([^(),]+,[^()]+\)\Z)")
_DOMAIN = re.compile(
    r"(.*[^ ,(;])[ ,(;]*(?:\\text\{[ ,]*(?:where|for|with)\b[a-z ,]*\}[ ,]*)?"
    r"\(?([A-Za-z]) ?\\in ?\\mathbb(\{[A-Z]\}(?:[_^](?:\{[^{}]*\}|[+*]))?)\)?"
)


def verify(gold: str, answer: str) -> Verdict:
    """Return whether an answer is the true one. The relation is not symmetric, nor transitive.

    Equal strings, choices and words decide first, then each claim: words beside it, plain numbers,
    refusal of what could cost seconds, the parser. A time-out or a crash is a "no".

    Example:
        >>> verify("6", "5=6")
        Verdict(correct=False, reason='numbers')
    """
    truth, claimed = normal_form(gold), normal_form(answer)
    if not truth or not claimed:
        return Verdict(False, "empty")
    if TEXT.sub(r" \1 ", truth).split() == TEXT.sub(r" \1 ", claimed).split():
        return Verdict(True, "equal strings")
    gold_choice, choice = _CHOICE.fullmatch(truth), _LABEL.fullmatch(claimed)
    if gold_choice and choice:
        return Verdict(gold_choice[1].upper() == choice[1].upper(), "choices")
    if gold_choice and {*_CHOICES.findall(claimed)} - {gold_choice[1].upper()}:  # C = B
        return Verdict(False, "choices")
    if (gold_words := words(truth)) is not None:
        return Verdict(gold_words == words(claimed), "words")
    if max(len(truth), len(claimed)) > MAX_TRUTH_CHARS:
        return Verdict(False, "refused: length")
    if len(sides := _sides(claimed)) > len({*sides}) == 1:  # 6=6 names no value, x=6=6 does
        return Verdict(False, "identity")
    value, claimed_values = claims(truth, claimed)
    is_rounded = r"\approx" in claimed and len(claimed_values) > 1
    verdicts = [_same_value(value, claim, is_rounded=is_rounded) for claim in claimed_values]
    return next((verdict for verdict in verdicts if not verdict), verdicts[0])


def _same_value(truth: str, claimed: str, *, is_rounded: bool) -> Verdict:
    """Return whether a claimed value, with the words beside it, is the true one."""
    (true, true_words), (claim, claim_words) = apart(truth), apart(claimed)
    if against := words_against(true_words, claim_words):
        return Verdict(False, against)
    has_base = any("base" in word for word in true_words + claim_words)
    if has_base and re.search("[A-F]", true + claim):
        return Verdict(true == claim, "bases")  # a parser multiplies the digits of 2A_{16}
    if _TIME.fullmatch(claim) and true != claim and (":" not in true or _TIME.fullmatch(true)):
        return Verdict(False, "times")  # 6:15 is not 12:30, as ratios are
    return same_value(true, claim, Tolerance.of(true, claim, is_rounded=is_rounded))


def same_value(gold: str, answer: str, near: Tolerance) -> Verdict:
    """Return whether two normal forms without words are equal strings, numbers, or to a parser."""
    if gold == answer:
        return Verdict(True, "equal strings")
    true, claimed = number(gold), number(answer)
    if true is not None and (claimed is not None or answer.replace(",", ".") == gold):  # 2,75
        return Verdict(claimed is None or near.allows(true, claimed), "numbers")
    for side, form in (("gold", gold), ("answer", answer)):
        if why := why_not_compared(form, gold):
            return Verdict(False, f"{side} refused: {why}")
    outcome = compare(gold, answer, near)
    return Verdict(outcome == "equal", outcome if outcome in FAILURES else "parser")


def claims(gold: str, answer: str) -> tuple[str, list[str]]:
    """Return the true value, and the values that an answer claims; each must be the true one.

    A name in front claims nothing. An equation (`6=x`, not `2+4=6`) or a list is one claim.
    """
    gold, answer = _of_all(_POINT.sub("", gold), _POINT.sub("", answer))
    gold, in_one_form = _in_one_form(gold), _in_one_form(answer)
    truth, sides = _sides(gold), _sides(answer)
    is_equation = any(_variables(side) or _LETTER.search(TEXT.sub("", side)) for side in sides)
    is_pair = is_equation and len(truth) == len(_sides(in_one_form)) == 2
    value = _without_names(truth)
    if is_pair and truth[0] == sides[0] and len(value) == 1:
        return value[0], sides[1:]
    is_list = any(_SEVERAL.search(_BRACKETS.sub("", form)) for form in (gold, answer))
    if is_list or is_pair or (len(value) > 1 and r"\approx" not in gold):
        return gold, [answer]
    return value[0], _without_names(sides)


def _in_one_form(form: str) -> str:
    r"""Return `x=\frac{3}{4}` for `x=\frac{3}{4}=0.75`; identities stay, also `0=0`."""
    sides = _sides(form)
    value = _without_names(sides)
    meant = [(number(core), {*words} - {"percent"}) for core, words in map(apart, value)]
    is_one = meant[0][0] is not None and all(one == meant[0] for one in meant)
    return "=".join(sides[: 1 - len(value)]) if is_one and len({*value}) > 1 else form


def _sides(form: str) -> list[str]:
    return [side.strip() for side in _EQUALS.split(form)]


def _without_names(sides: list[str]) -> list[str]:
    """Return the sides of an equation that follow the names in front."""
    named = [side == "" or _is_name(side) for side in sides[:-1]]
    return sides[named.index(False) if False in named else len(named) :]


def _of_all(gold: str, answer: str) -> tuple[str, str]:
    r"""Return both in the variable of the true value, without its set: `k\pi, k\in\mathbb{Z}`."""
    true, claimed = _DOMAIN.fullmatch(gold), _DOMAIN.fullmatch(answer)
    if not true or (claimed and claimed[3] != true[3]):
        is_domain = claimed and not true and claimed[2] in _variables(gold)  # f(x) = x^2, x \in R
        return gold, claimed[1] if claimed and is_domain else answer
    if claimed and claimed[2] != true[2] and true[2] not in _variables(claimed[1]):
        pieces = rf"{TEXT.pattern}|\\[A-Za-z]+|{claimed[2]}"
        return true[1], re.sub(pieces, lambda it: it[0] if it[0][1:] else true[2], claimed[1])
    return true[1], claimed[1] if claimed and claimed[2] == true[2] else answer


def _is_name(segment: str) -> bool:
    """Return whether a side claims nothing: `x`, `a+b`, `f(2)`, but not `6x`, `-x` or `(y,x)`."""
    bare = _INDEX.sub("", segment)
    letters = [letter for letter in bare if letter.isalpha()]
    if bare[:1] == "(" and letters != sorted(letters):
        return False
    has_letter = _variables(segment) or TEXT.search(segment) or _LETTER.search(bare)
    return bool(_ASKED.search(segment) or (has_letter and not _NO_NAME.search(bare)))


def _variables(form: str) -> set[str]:
    """Return the letters outside words and commands."""
    form = re.sub(r"\\[A-Za-z]+", "", TEXT.sub("", form))
    return {letter for letter in form if letter.isalpha()}
