"""The default grader: strings first, then math-verify in a process that can be killed.

math-verify knows more forms of an answer than any other library, and believes what it reads. Here a
match must also pass what answers made to please it do not: see `doubts` and `parsed`.
"""

import re

from ..processes import compare
from ..strings import normal_form, why_not_compared, words
from ..verdict import Verdict
from .doubts import chain, doubt, exact_part
from .expressions import compare_expressions
from .numbers import equal_numbers, is_decimal_comma_of, number

VERSION = "2"
"""Changes whenever a verdict may change."""

_CHOICE = re.compile(r"\(?(?:\\(?:text|textbf|mathrm)\{)?\(?([A-Ja-j])\)?\}?\)?")


def verify(gold: str, answer: str) -> Verdict:
    r"""Return whether an answer is the true one.

    In this order: equal strings (up to spacing and the like), choices and words as such, plain
    numbers as exact fractions, refusal of what could cost a parser seconds, chains, doubts, exact
    values of expressions, math-verify. The relation is neither symmetric nor transitive. A
    comparison that takes more than 3 s of CPU time, or crashes, is a "no".

    Args:
        gold: The true answer, bare.
        answer: The answer to judge, bare.

    Returns:
        Whether it is correct, and what decided it.

    Raises:
        RuntimeError: If math-verify cannot be started at all.

    Example:
        >>> verify(r"\frac{1}{2}", "0.5")
        Verdict(correct=True, reason='numbers')
        >>> verify("6", "5=6")
        Verdict(correct=False, reason='chain')
    """
    truth, given = normal_form(gold), normal_form(answer)
    if not truth or not given:
        return Verdict(False, "empty")
    given = exact_part(truth, given)
    if truth == given:
        return Verdict(True, "equal strings")
    settled = _without_parser(truth, given)
    if settled is not None:
        return settled
    for side, form in (("gold", truth), ("answer", given)):
        why = why_not_compared(form)
        if why:
            return Verdict(False, f"{side} refused: {why}")
    claims = chain(truth, given)
    if claims:
        value = truth.rpartition("=")[2]
        return Verdict(all(verify(value, claim) for claim in claims), "chain")
    against = doubt(truth, given)
    if against:
        return Verdict(False, f"doubt: {against}")
    is_same = compare_expressions(truth, given)
    if is_same is not None:
        return Verdict(is_same, "expressions")
    outcome = compare("math_verify", truth, given)
    if outcome in ("timeout", "crash"):
        return Verdict(False, outcome)
    return Verdict(outcome == "equal", "math-verify")


def _without_parser(truth: str, given: str) -> Verdict | None:
    gold_choice, choice = _CHOICE.fullmatch(truth), _CHOICE.fullmatch(given)
    if gold_choice and choice:
        return Verdict(gold_choice[1].upper() == choice[1].upper(), "choices")
    gold_words = words(truth)
    if gold_words is not None:
        return Verdict(gold_words == words(given), "words")
    gold_number, answer_number = number(truth), number(given)
    if gold_number and answer_number:
        return Verdict(equal_numbers(gold_number, answer_number), "numbers")
    if is_decimal_comma_of(given, truth) or is_decimal_comma_of(truth, given):
        return Verdict(True, "numbers")
    return None
