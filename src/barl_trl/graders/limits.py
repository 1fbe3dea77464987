"""Why an answer is not handed to a parser: it could cost seconds or gigabytes there."""

import re
import unicodedata
from math import prod

from .strings import is_balanced

MAX_TRUTH_CHARS = 512
"""Longest admissible true answer in characters: longer ones are never handed to a parser."""

_MAX_NESTING = 12
_MAX_EXPONENT = 10_000
_MAX_FACTORIAL = 1_000
# Cc: control; Cf: zero-width and bidirectional marks; Cs: lone surrogates; Zl, Zp: separators.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_REFUSED = {
    "digit run": re.compile(r"\d{101}"),
    "nested factorial": re.compile(r"![\s)}\]]*!"),
    "code": re.compile(r"__|(?<!\\)\b(?:import|lambda|eval|exec)\b|\\def(?![A-Za-z])"),
    "hidden": re.compile(r"\\[hv]?phantom"),
}
_MAX_COUNTS = {
    "commas": (re.compile(","), 64),
    "bars": (re.compile(r"\||\\[lr]?vert"), 8),
    "matrix cells": (re.compile(r"&|\\\\"), 200),
    "operators": (re.compile(r"[-+*/^=<>]|\\(?:frac|cdot|times|sqrt)"), 256),
}
_COSTLY = re.compile(r"\\(?:sum|prod|i*nt|oint|lim|det|gcd|lcm|Gamma)(?![A-Za-z])")
_EXPONENT = re.compile(r"(?:\^|\*\*)[\s{(+-]*(\d+)")
_TOWER = re.compile(r"(?:\^|\*\*)[\s{(+-]*\d+\s*(?:\^|\*\*)")
_POWER_OF_POWER = re.compile(r"(?:\^|\*\*)[\s{(+-]*\d+[\s}]*\)[\s})]*(?:\^|\*\*)")
_FACTORIAL = re.compile(r"(\d+)[\s)}]*!|\\[dt]?binom\s*\{?\s*(\d+)")


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
    if _nesting(answer) > _MAX_NESTING:
        return "nesting"
    if _has_huge_power(answer):
        return "exponent"
    if any(int(match[1] or match[2]) > _MAX_FACTORIAL for match in _FACTORIAL.finditer(answer)):
        return "factorial or binomial"
    if _COSTLY.search(answer) and not _COSTLY.search(gold):
        return "costly operation"
    for reason, pattern in _REFUSED.items():
        if pattern.search(answer):
            return reason
    for reason, (pattern, most) in _MAX_COUNTS.items():
        if sum(1 for _ in pattern.finditer(answer)) > most:
            return reason
    return None


def _has_huge_power(answer: str) -> bool:
    """Whether a power may have some 10^4 digits or more: `9^99999`, `9^{9^9}`, `((x^9)^99)^99`."""
    exponents = [match[1] for match in _EXPONENT.finditer(answer)]
    if any(len(exponent) > 5 or int(exponent) > _MAX_EXPONENT for exponent in exponents):
        return True
    sizes = [int(exponent) for exponent in exponents]
    if _TOWER.search(answer):
        return len(sizes) != 2 or sizes[1] > 13 or sizes[0] ** sizes[1] > _MAX_EXPONENT
    return _POWER_OF_POWER.search(answer) is not None and prod(sizes) > _MAX_EXPONENT


def _nesting(text: str) -> int:
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    return deepest
