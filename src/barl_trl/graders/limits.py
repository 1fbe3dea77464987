"""Why an answer is not handed to a parser: it could cost seconds or gigabytes there."""

import re
import unicodedata
from functools import reduce
from itertools import accumulate
from math import prod

from .strings import is_balanced

MAX_TRUTH_CHARS = 512
"""Longest admissible true answer in characters: longer ones are never handed to a parser."""

_MAX_NESTING = 12
_MAX_EXPONENT = 10_000
# Cc: control; Cf: zero-width and bidirectional marks; Cs: lone surrogates; Zl, Zp: separators.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_POWERS = re.compile(r"(?:(?:\^|\*\*)[\s{(+-]*\d+[\s})]*)+")
_COSTLY = re.compile(r"\\(?:sum|prod|i*nt|oint|lim|det|gcd|lcm|Gamma)(?![A-Za-z])")
_OVER_1000 = r"(?<!\d)(?!1000(?!\d))\d{4,}"
_REFUSED = {
    "factorial or binomial": rf"{_OVER_1000}[\s)}}]*!|\\[dt]?binom\s*\{{?\s*{_OVER_1000}",
    "nested factorial": r"![\s)}\]]*!",
    "code": r"__|(?<!\\)\b(?:import|lambda|eval|exec)\b|\\def(?![A-Za-z])",
    "hidden": r"\\[hv]?phantom",
    "bars": r"(?:(?:\||\\[lr]?vert).*?){9}",
}


def has_unseen_characters(text: str) -> bool:
    """Return whether some character is a control character, a line break or an invisible mark."""
    return any(unicodedata.category(character) in _UNSEEN for character in text)


def why_not_compared(answer: str, gold: str = "") -> str | None:
    """Return why an answer is not handed to a parser, None if it may be.

    Refused is what could cost seconds or gigabytes there. The limits are no guarantee: the process
    that compares is limited too.

    Args:
        answer: A normal form.
        gold: The true answer: where it has a sum, an integral, a limit or the like, so may the
            answer. A policy may not choose them.
    """
    if len(answer) > MAX_TRUTH_CHARS:
        return "length"
    if not is_balanced(answer):  # it would end the box that it is put in
        return "unbalanced"
    if has_unseen_characters(answer.translate({ord("\n"): " ", ord("\t"): " "})):
        return "control characters"
    depths = accumulate((character in "([{") - (character in ")]}") for character in answer)
    if max(depths, default=0) > _MAX_NESTING:
        return "nesting"
    if any(_exponent(powers) > _MAX_EXPONENT for powers in _POWERS.findall(answer)):
        return "exponent"
    if _COSTLY.search(answer) and not _COSTLY.search(gold):
        return "costly operation"
    return next((why for why, found in _REFUSED.items() if re.search(found, answer, re.S)), None)


def _exponent(powers: str) -> int:
    """Return the size of `^{2^3}`, or of `^2)^3`; of a tower at least whether it is huge."""
    towers = [
        reduce(lambda e, n: n ** min(e, 14), map(int, re.findall(r"\d+", tower)[::-1]), 1)
        for tower in re.split(r"[)}][\s})]*(?=\^|\*\*)", powers)
    ]
    return max(prod(towers), *towers)
