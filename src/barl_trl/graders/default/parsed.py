r"""What math-verify makes of two answers. Runs in the processes that can be killed, only there.

math-verify rounds to six decimals, so that 2^{-99} equals 0 and 2^{-98}: what it finds equal must
also agree to 1e-40 of the value, or to 1e-5 where a decimal stands in one of them. It takes i for a
variable, and rearranged equations for different: what it finds different gets a second look.
"""

import re
from functools import lru_cache
from typing import Any

from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse
from math_verify import verify as verify_parsed
from sympy import (
    And,
    Basic,
    Eq,
    Expr,
    FiniteSet,
    Float,
    I,
    Interval,
    MatrixBase,
    N,
    Union,
    expand,
    nan,
    oo,
    zoo,
)
from sympy.core.relational import Relational

from .doubts import without_bare_units

# No ExprExtractionConfig: of what LaTeX's grammar does not cover it would take the last number.
_CONFIG = (
    LatexExtractionConfig(
        boxed_match_priority=0,
        try_extract_without_anchor=False,
        # Letters at the end would be units, so that `2bc` is `2ab`.
        normalization_config=NormalizationConfig(units=False, malformed_operators=True, nits=True),
    ),
)
_NOUNS = re.compile(
    r"\\(?:text|textbf|textit|textrm|textnormal|mathrm|mbox)\{(?![ ,]*(?:and|or)\b)[^{}\d]*\}"
    r"(?:\^\{?-?\d\}?)?"
)
_DIGITS = 60


def parsed_equal(gold: str, answer: str) -> bool:
    """Return whether two answers mean the same.

    Args:
        gold: The true answer.
        answer: The answer to judge.
    """
    try:
        return _are_equal(gold, answer)
    except (ArithmeticError, AttributeError, NotImplementedError, TypeError, ValueError):
        return False  # sympy gives up in many ways


def _are_equal(gold: str, answer: str) -> bool:
    expected, got = _parse(gold), _parse(answer)
    if not expected or not got or not all(map(_is_sound, (expected[0], got[0]))):
        return False
    if not verify_parsed(expected, got, allow_set_relation_comp=True, timeout_seconds=0):
        return _equal_at_second_look(expected[0], got[0])
    is_percent = ("%" in gold) != ("%" in answer)  # 50 %, 50 and 0.5 are the same to a reader
    return _agree(expected[0], got[0], scales=(1, 100) if is_percent else (1,))


def is_readable(gold: str) -> bool:
    """Return whether a true answer is more than a string to math-verify."""
    return any(not isinstance(value, str) for value in _parse(gold))


@lru_cache(1024)  # a prompt's answers are compared with each other
def _parse(answer: str) -> list[Any]:
    # A parser given bare `3\pi` reads the number 3, hence the box. 0: no signals.
    bare = without_bare_units(_NOUNS.sub("", answer).strip()) or answer
    latex = bare.replace("%", r"\%")
    return parse(f"\\boxed{{{latex}}}", extraction_config=_CONFIG, parsing_timeout=0)


def _agree(gold: Any, answer: Any, scales: tuple[int, ...] = (1,)) -> bool:
    """Return whether two numbers have the same value; of all else, whether their parts do."""
    gold, answer = _value_of(gold, answer), _value_of(answer, gold)
    if isinstance(gold, MatrixBase) and isinstance(answer, MatrixBase):
        return all(_agree(x, y, scales) for x, y in zip(gold.flat(), answer.flat(), strict=True))
    if not (isinstance(gold, Basic) and isinstance(answer, Basic)) or gold == answer:
        return True
    if isinstance(gold, FiniteSet) and isinstance(answer, FiniteSet):
        return all(any(_agree(x, y, scales) for y in answer) for x in gold)
    if isinstance(gold, Expr) and isinstance(answer, Expr):
        return not (gold.is_number and answer.is_number) or _equal_numbers(gold, answer, scales)
    if gold.func != answer.func or len(gold.args) != len(answer.args):
        return True
    parts = zip(gold.args, answer.args, strict=True)
    return all(_agree(x, y, scales) for x, y in parts) or _equal_at_second_look(gold, answer)


def _is_sound(value: Any) -> bool:
    """Whether infinities are the ends of intervals, or all there is: oo - x is 0 to sympy."""
    if value in (oo, -oo) or not isinstance(value, Basic):
        return True
    if isinstance(value, Interval | Union):
        return all(map(_is_sound, value.args))
    return not value.has(oo, -oo, zoo, nan)


def _value_of(side: Any, other: Any) -> Any:
    """5 of `x = 5` beside a bare value."""
    return side.rhs if isinstance(side, Eq) and not isinstance(other, Eq) else side


def _equal_numbers(gold: Expr, answer: Expr, scales: tuple[int, ...]) -> bool:
    tolerance = 1e-5 if gold.has(Float) or answer.has(Float) else 1e-40
    # Parsed expressions are not evaluated: 50 % is 50*(1/100).
    x, y = N(gold.doit(), _DIGITS), N(answer.doit(), _DIGITS)
    pairs = [pair for scale in scales for pair in ((x, scale * y), (scale * x, y))]
    differences = [(abs(a - b), tolerance * abs(a)) for a, b in pairs]
    return any(d <= most for d, most in differences if d.is_comparable and most.is_comparable)


def _equal_at_second_look(gold: Any, answer: Any) -> bool:
    if isinstance(gold, Expr) and isinstance(answer, Expr):
        return _equal_complex_numbers(gold, answer)
    if isinstance(gold, Eq) and isinstance(answer, Eq):
        sides: list[Any] = [gold.lhs, gold.rhs, answer.lhs, answer.rhs]
        if not all(isinstance(side, Expr) for side in sides):
            return False
        left, right = sides[0] - sides[1], sides[2] - sides[3]
        return expand(left - right) == 0 or expand(left + right) == 0
    if isinstance(gold, And | Relational) and isinstance(answer, And | Relational):
        return _canonical(gold) == _canonical(answer)
    return False


def _equal_complex_numbers(gold: Expr, answer: Expr) -> bool:
    symbols = gold.free_symbols | answer.free_symbols
    if {str(symbol) for symbol in symbols} != {"i"}:
        return False
    values: list[Any] = [side.subs(dict.fromkeys(symbols, I)) for side in (gold, answer)]
    return _equal_numbers(*values, scales=(1,))


def _canonical(relation: Any) -> set[Any]:
    """Return the parts of `1 < x < 2`, each the same way round."""
    parts = relation.args if isinstance(relation, And) else (relation,)
    return {part.canonical for part in parts if isinstance(part, Relational)}
