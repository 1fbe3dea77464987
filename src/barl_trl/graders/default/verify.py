"""The default grader: strings first, then math-verify in a process that can be killed.

math-verify knows more forms of an answer than any other library, and believes what it reads. Here a
match must also pass what answers made to please it do not: see `claims`, `nouns` and `parsed`.
"""

import re

from ..limits import MAX_TRUTH_CHARS, why_not_compared
from ..normal_form import TEXT, normal_form, words
from ..processes import compare
from ..verdict import Verdict
from .claims import claims, variables
from .nouns import apart, words_against
from .numbers import equal_numbers, number

VERSION = "4"
"""Changes whenever a verdict may change."""

_CHOICE = re.compile(r"\(?(?:(?:\\text)?\{)?\(?([A-Ja-j])\)?\}?\)?")
_CHOICES = re.compile(r"(?<![A-Za-z\\])[A-J](?![A-Za-z])")
_LABEL = re.compile(  # `(B) 20`, without another label or a doubt
    r"[({ ]{0,3}(?:\\text\{ ?)?(?:(?:the )?(?:option|choice|answer)(?: is|:)? )?"
    r"[({]{0,3}([A-J])(?:[)}. ]{0,3}|[)}]{0,3}[).:]"
    r"[} ]{0,3}(?=[a-z0-9$({.-]|\\(?:frac|sqrt|text|pi|\$))"
    rf"(?!.*\b(?:or|isn?|wrong|incorrect|maybe)\b)(?-i:(?!.*{_CHOICES.pattern})).*)",
    re.IGNORECASE | re.DOTALL,
)
_PIECE = re.compile(r"\d+|\\?[^\W\d_]+|\S")
_PAIRS = re.compile(r"[)\]] ?(?:,|\\cup) ?[(\[]")
_TIME = re.compile(r"\d{1,2}:\d\d")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_DOTS = re.compile(r"\\[lc]?dots(?![A-Za-z])|\.\.\.|…")


def verify(gold: str, answer: str) -> Verdict:
    r"""Return whether an answer is the true one. The relation is not symmetric, nor transitive.

    Equal strings, choices and words decide first, then each claim of a chain: words and marks that
    the parser drops, plain numbers as exact fractions, refusal of what could cost a parser seconds,
    math-verify. A comparison that takes more than 3 s of CPU time, or crashes, is a "no".

    Args:
        gold: The true answer, bare.
        answer: The answer to judge, bare.

    Returns:
        Whether it is correct, and what decided it.

    Raises:
        RuntimeError: If math-verify cannot be started at all.

    Example:
        >>> verify("6", "5=6")
        Verdict(correct=False, reason='numbers')
    """
    truth, given = normal_form(gold), normal_form(answer)
    if not truth or not given:
        return Verdict(False, "empty")
    if _pieces(truth) == _pieces(given):
        return Verdict(True, "equal strings")
    gold_choice, choice = _CHOICE.fullmatch(truth), _LABEL.fullmatch(given)
    if gold_choice and choice:
        return Verdict(gold_choice[1].upper() == choice[1].upper(), "choices")
    if gold_choice and {*_CHOICES.findall(given)} - {gold_choice[1].upper()}:  # C = B
        return Verdict(False, "choices")
    gold_words = words(truth)
    if gold_words is not None:
        return Verdict(gold_words == words(given), "words")
    for side, form in (("gold", truth), ("answer", given)):
        if len(form) > MAX_TRUTH_CHARS:
            return Verdict(False, f"{side} refused: length")
    value, values = claims(truth, given)
    verdicts = [_same_value(value, claim) for claim in values]
    return next((verdict for verdict in verdicts if not verdict), verdicts[0])


def _pieces(form: str) -> list[str]:
    r"""Return what `July 4` and `\text{July }4` have in common."""
    return _PIECE.findall(TEXT.sub(r" \1 ", form))


def _same_value(truth: str, given: str) -> Verdict:
    given, is_rounded, _ = given.partition(r"\approx")  # 2\sqrt{3} \approx 3.46 for 3.46
    gold, answer = apart(truth), apart(given.strip())
    is_same = gold.core == answer.core
    against = words_against(gold, answer) or (not is_same and _doubt(gold.core, answer.core))
    if against:
        return Verdict(False, f"doubt: {against}")
    if is_same:
        return Verdict(True, "equal strings")
    gold_number, answer_number = number(gold.core), number(answer.core)
    if gold_number and answer_number and not is_rounded:
        return Verdict(equal_numbers(gold_number, answer_number), "numbers")
    if gold_number and answer.core.replace(",", ".") == gold.core:  # 2,75 for 2.75
        return Verdict(True, "numbers")
    for side, form in (("gold", gold.core), ("answer", answer.core)):
        why = why_not_compared(form, gold.core)
        if why:
            return Verdict(False, f"{side} refused: {why}")
    outcome = compare("rounded" if is_rounded else "math_verify", gold.core, answer.core)
    if outcome in ("timeout", "crash"):
        return Verdict(False, outcome)
    return Verdict(outcome == "equal", "math-verify")


def _doubt(gold: str, answer: str) -> str | None:
    """Return what differs in the characters and is lost on the parser."""
    if {_bracket(gold), _bracket(answer)} == {"set", "pair"}:
        return "brackets"
    if (_DOTS.search(gold) is None) != (_DOTS.search(answer) is None):
        return "dots"
    if gold.count("'") != answer.count("'") or max(gold.count(":"), answer.count(":")) > 1:
        return "marks"
    if ":" in answer and (":" in gold) == bool(_TIME.fullmatch(gold)) and _TIME.fullmatch(answer):
        return "times"  # 6:15 is not 12:30, as ratios are, and 7:03 is no ratio
    names, own = _names(gold), _names(answer)
    if {n.casefold() for n in names - own} & {n.casefold() for n in own - names}:
        return "capitals"
    return None


def _names(form: str) -> set[str]:
    return variables(form).union(_COMMAND.findall(form))


def _bracket(form: str) -> str | None:
    if form.startswith(r"\{") and form.endswith(r"\}") and form.count(r"\{") == 1:
        return "set"
    is_pair = form[:1] in ("(", "[") and form[-1:] in (")", "]") and not _PAIRS.search(form)
    return "pair" if is_pair else None
