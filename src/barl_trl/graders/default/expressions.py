r"""Whether two answers are the same by their exact values, where no parser is needed to say so.

What `readings` does not read, what may be rounded, a unit or the same in another way is left to
math-verify.
"""

import re
from fractions import Fraction
from itertools import pairwise
from math import inf

from .numbers import equal_numbers, number
from .polynomials import GiveUp, are_different_lines, as_number, equal, negative, total
from .readings import INFINITY, Reading, Several, Value, read

_NAME = re.compile(r"([A-Za-z]|\([a-z](?:, ?[a-z])+\)) ?(?:=|\\in(?![A-Za-z])) ?")
_COMMAND = re.compile(r"\\[A-Za-z]+")


def compare_expressions(gold: str, answer: str) -> bool | None:
    r"""Return whether an answer is the true one, None if that is for a parser to say.

    Args:
        gold: The true answer, in its normal form.
        answer: The answer to judge, in its normal form.

    Example:
        >>> compare_expressions(r"2\sqrt{3}", r"\sqrt{12}"), compare_expressions("(1,2x)", "(1,3x)")
        (True, False)
        >>> compare_expressions(r"\sin x", "x")
    """
    sides = [form.split("=", 2) for form in _without_name(gold, answer)]
    if {*map(len, sides)} not in ({1}, {2}):
        return None
    readings = [reading for side in (*sides[0], *sides[1]) if (reading := read(side))]
    letters = frozenset[str]().union(*map(_letters, readings))
    # i is the imaginary unit, but may be a variable beside others.
    if len(readings) < 2 * len(sides[0]) or ("i" in letters and letters != {"i"}):
        return None
    try:
        return _same(*readings) if len(readings) == 2 else _same_equation(readings)
    except GiveUp:
        return None


def _without_name(gold: str, answer: str) -> tuple[str, str]:
    r"""Return the values of `x = 1`, `x \in (1,2)` and `(x,y) = (1,2)`, if there is one name."""
    found = [_NAME.match(form) for form in (gold, answer)]
    names = {match[1] for match in found if match}
    letters = [letter for letter in "".join(names) if letter.isalpha()]
    if len(names) != 1 or letters != sorted(letters):  # (y,x)
        return gold, answer
    first, second = (match.end() if match else 0 for match in found)
    values = gold[first:], answer[second:]
    has_name = set(letters) & set(_COMMAND.sub("", " ".join(values)))
    return (gold, answer) if has_name else values


def _letters(reading: Reading) -> frozenset[str]:
    if isinstance(reading, Value):
        return reading.letters
    return frozenset().union(*map(_letters, reading.parts))


def _same(gold: Reading, answer: Reading) -> bool | None:
    if isinstance(gold, Value) and isinstance(answer, Value):
        return _same_value(gold, answer)
    if isinstance(gold, Value) or isinstance(answer, Value):
        return None
    if gold.kind != answer.kind:
        are_pairs = all(len(side.kind) == len(side.parts) == 2 for side in (gold, answer))
        return False if are_pairs else None  # (1,2] is not (1,2), but [1,2,3] may be (1,2,3)
    if gold.kind in ("set", "list"):
        return _same_set(gold.parts, answer.parts)
    if gold.kind == "union":
        return _same_union(gold, answer)
    if len(gold.parts) != len(answer.parts):
        return False
    return _all([_same(*pair) for pair in zip(gold.parts, answer.parts, strict=True)])


def _same_value(gold: Value, answer: Value) -> bool | None:
    if equal(gold.ratio, answer.ratio):
        return True
    if gold.is_decimal or answer.is_decimal:
        true, own = number(gold.form), number(answer.form)
        return equal_numbers(true, own) if true and own else None
    # Letters that the other has not may be a unit: 5 m.
    return False if gold.letters == answer.letters else None


def _same_set(gold: tuple[Reading, ...], answer: tuple[Reading, ...]) -> bool | None:
    """Whether each has its partner; not so if one is unlike all others."""
    table = [[_same(one, other) for other in answer] for one in gold]
    rows, columns = table, [*map(list, zip(*table, strict=True))]
    if any(not any(verdict is not False for verdict in line) for line in (*rows, *columns)):
        return False
    is_paired = all(line.count(True) == 1 for line in (*rows, *columns))
    return True if is_paired else None


def _all(verdicts: list[bool | None]) -> bool | None:
    return False if False in verdicts else None if None in verdicts else True


def _same_union(gold: Several, answer: Several) -> bool | None:
    """Overlapping intervals can be written in other ways."""
    same = _same_set(gold.parts, answer.parts)
    return same if same or (_is_apart(gold) and _is_apart(answer)) else None


def _is_apart(union: Several) -> bool:
    """Whether it is made of intervals between rational numbers that do not touch."""
    intervals = []
    for part in union.parts:
        if isinstance(part, Value) or len(part.kind) != 2 or len(part.parts) != 2:
            return False
        ends = [_end(end) for end in part.parts]
        if ends[0] is None or ends[1] is None or ends[0] >= ends[1]:
            return False
        intervals.append((*ends, part.kind))
    return all(
        left[1] < right[0] or (left[1] == right[0] and left[2][1] + right[2][0] == ")(")
        for left, right in pairwise(sorted(intervals))
    )


def _end(end: Reading) -> Fraction | float | None:
    if not isinstance(end, Value):
        return None
    for sign, ratio in ((1, INFINITY), (-1, negative(INFINITY))):
        if end.ratio == ratio:
            return sign * inf
    return as_number(end.ratio)


def _same_equation(sides: list[Reading]) -> bool | None:
    values = [side for side in sides if isinstance(side, Value)]
    if len(values) < 4:
        return None
    left, right, other_left, other_right = (value.ratio for value in values)
    gold, answer = total(left, negative(right)), total(other_left, negative(other_right))
    if not gold.above or not answer.above:  # an identity: it is about its sides
        return equal(gold, answer) and equal(left, other_left)
    if equal(gold, answer) or equal(gold, negative(answer)):
        return True
    is_decimal = any(value.is_decimal for value in values)
    return False if not is_decimal and are_different_lines(gold, answer) else None
