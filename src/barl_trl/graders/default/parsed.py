r"""What math-verify makes of two answers. Runs in the processes that can be killed, only there.

math-verify reads what it can, drops the rest and believes what is left. What it finds equal must
pass three checks: no number may be free to be another one (`6 \foo 5` is 5 to it, and so is `7 \foo
5`); an inequality is no list, and an identity no answer; and values must agree to 1e-40, or to 1e-5
where a decimal stands in one of them, for it rounds to six decimals. What it finds different gets a
second look: it takes i for a variable, and some equations of the same line for different.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import sympy as sp
from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse
from math_verify import verify as verify_parsed
from sympy.core.relational import Relational

# No ExprExtractionConfig: of what LaTeX's grammar does not cover it would take the last number.
_CONFIG = (
    LatexExtractionConfig(
        boxed_match_priority=0,
        try_extract_without_anchor=False,
        # Letters at the end would be units, so that `2bc` is `2ab`.
        normalization_config=NormalizationConfig(units=False, malformed_operators=True, nits=True),
    ),
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_WORD_OR_CAPITAL = re.compile(
    r"\\(?:text|math[a-z]+) ?\{[^{}]*\}|\\[A-Za-z]+|([A-Z])(?:_(?:(\w)|\{(\w+)\}))?"
)
_NO_VALUE = re.compile(r"(?<![A-Za-z])[A-Za-z]_\{?$|\\text\{[^{}]*$")  # x_1
_PRODUCT = re.compile(r"(?<![\w^_.{}\\])(\(?\d+\)?) ?(?=\(|\{\()")  # 3(1/4) is no mixed number
_PLUS, _MINUS = re.compile(r"\\pm(?![A-Za-z])"), re.compile(r"\\mp(?![A-Za-z])")
_DIGITS = 60
_WITH_SIGNS = (sp.Expr, sp.Tuple, sp.Eq, sp.FiniteSet)  # what ± may stand in
_COMPARED = (sp.Expr, sp.FiniteSet, sp.Tuple, sp.Interval, sp.Union)  # all parts, by math-verify


def parsed_equal(gold: str, answer: str) -> bool:
    """Return whether two answers mean the same.

    Args:
        gold: The true answer.
        answer: The answer to judge.
    """
    try:
        return _match(gold, answer) and not _has_unread_numbers(gold, answer)
    except (ArithmeticError, AttributeError, NotImplementedError, TypeError, ValueError):
        return False  # sympy gives up in many ways


def rounds_to(gold: str, answer: str) -> bool:
    """Return whether an answer has a value that rounds to a decimal."""
    value = _parse(answer)[0].doit()
    half = 10.0 ** -len(gold.partition(".")[2]) / 2
    return value.is_number and bool(abs(sp.N(value) - float(gold)) <= 1.001 * half)


def is_readable(gold: str) -> bool:
    """Return whether a true answer is more than a string to math-verify."""
    return any(not isinstance(value, str) for value in _parse(gold))


@lru_cache(1024)  # a prompt's answers are compared with each other
def _parse(answer: str) -> list[Any]:
    # A parser given bare `3\\pi` reads the number 3, hence the box. 0: no signals.
    small = set(re.sub(r"\\[A-Za-z]+", "", answer))
    answer = _PRODUCT.sub(r"\1\\cdot ", answer)
    latex = _WORD_OR_CAPITAL.sub(lambda it: _readable(it, small), answer).replace("%", r"\%")
    if _PLUS.search(latex) or _MINUS.search(latex):
        both = [_parse(_MINUS.sub(minus, _PLUS.sub(plus, answer))) for plus, minus in ("+-", "-+")]
        values = [found[0] for found in both if found]
        if len(values) == 2 and all(isinstance(value, _WITH_SIGNS) for value in values):
            sets = [one if isinstance(one, sp.FiniteSet) else sp.FiniteSet(one) for one in values]
            return [sp.FiniteSet(*itertools.chain(*sets)), answer]
    found = parse(f"\\boxed{{{latex}}}", extraction_config=_CONFIG, parsing_timeout=0)
    return [_as_meant(found[0]), *found[1:]] if found else found


def _readable(found: re.Match[str], small: set[str]) -> str:
    """Return a capital as another symbol if to the parser it is i, or the same as a small one."""
    capital, *index = found.groups("")
    if capital == "I" or capital.lower() in small:
        return rf"\Xi_{{{ord(capital)}{''.join(index)}}}"
    return found[0]


def _as_meant(value: Any) -> Any:
    """Return the set of `x < 1 or x > 3`, and of A without B; dy/dx as a name: sympy has 0."""
    parts: Any = value.args if isinstance(value, sp.FiniteSet) else ()
    if parts and all(map(_is_inequality, parts)):
        return sp.Or(*parts).as_set()
    if isinstance(value, sp.Complement):
        return value.doit()
    if isinstance(value, str) or not value.has(sp.Derivative):
        return value
    return value.replace(
        lambda node: isinstance(node, sp.Derivative) and node.expr.is_Symbol,
        lambda node: sp.Symbol(str(node)),
    )


# Whether the values match


def _match(gold: str, answer: str, *, is_changed: bool = False) -> bool:
    expected, got = _parse(gold), _parse(answer)
    if not expected or not got:
        return False
    are_vectors = [_is_vector(found[0]) for found in (expected, got)]
    if any(are_vectors) and any(isinstance(x[0], sp.Tuple | sp.Interval) for x in (expected, got)):
        expected, got = ([_as_tuple(found[0]), *found[1:]] for found in (expected, got))
    first, other = expected[0], got[0]
    if not (_is_sound(first) and _is_sound(other) and _are_comparable(first, other)):
        return False
    if is_changed and _clearly_differ(first, other):
        return False
    is_slow = is_changed and isinstance(first, sp.Eq) and isinstance(other, sp.Eq)  # solves both
    if is_slow or not verify_parsed(expected, got, allow_set_relation_comp=True, timeout_seconds=0):
        return _equal_at_second_look(first, other)
    is_percent = ("%" in gold) != ("%" in answer)  # 50 %, 50 and 0.5 are the same to a reader
    return _agree(first, other, scales=(1, 100) if is_percent else (1,))


def _as_tuple(value: Any) -> Any:
    """Return the vector of 1 and 2, or the interval (1, 2), as the tuple (1, 2)."""
    if _is_vector(value):
        return sp.Tuple(*value.flat())
    is_open = isinstance(value, sp.Interval) and value.left_open and value.right_open
    return sp.Tuple(*value.args[:2]) if is_open else value


def _is_vector(value: Any) -> bool:
    return isinstance(value, sp.MatrixBase) and 1 in value.shape


def _is_sound(value: Any) -> bool:
    """Whether infinities are the ends of intervals, or all there is: oo - x is 0 to sympy."""
    if value in (sp.oo, -sp.oo) or not isinstance(value, sp.Basic):
        return True
    if isinstance(value, sp.Interval | sp.Union):
        return all(map(_is_sound, value.args))
    return not value.has(sp.oo, -sp.oo, sp.zoo, sp.nan)


def _are_comparable(gold: Any, answer: Any) -> bool:
    """Whether not one is an inequality and the other a list. An identity is compared as written."""
    if _is_inequality(gold) or _is_inequality(answer):
        return not any(
            isinstance(side, str) or side.has(sp.FiniteSet, sp.Tuple) for side in (gold, answer)
        )
    are_equations = isinstance(gold, sp.Eq) and isinstance(answer, sp.Eq)
    if are_equations and (_is_identity(gold) or _is_identity(answer)):
        return {*map(_tree, gold.args)} == {*map(_tree, answer.args)}
    return True


def _is_inequality(value: Any) -> bool:
    return isinstance(value, Relational | sp.And) and not isinstance(value, sp.Eq)


def _is_identity(equation: Any) -> bool:
    left, right = equation.args
    are_terms = isinstance(left, sp.Expr) and isinstance(right, sp.Expr)
    return not equation.free_symbols or (are_terms and sp.simplify(left - right) == 0)


def _tree(value: Any) -> Any:
    """Return an expression as it is written, but for the order of commuting parts."""
    parts = [_tree(part) for part in value.args]
    is_ordered = not (value.is_Add or value.is_Mul)
    return (value.func, *(parts if is_ordered else sorted(parts, key=str))) if parts else value


def _agree(gold: Any, answer: Any, scales: tuple[int, ...] = (1,)) -> bool:
    """Return whether two numbers have the same value; of all else, whether their parts do."""
    if isinstance(gold, sp.Eq) != isinstance(answer, sp.Eq):  # 5 of `x = 5` beside a bare value
        gold, answer = (side.rhs if isinstance(side, sp.Eq) else side for side in (gold, answer))
    if isinstance(gold, sp.MatrixBase) and isinstance(answer, sp.MatrixBase):
        return all(_agree(x, y, scales) for x, y in zip(gold.flat(), answer.flat(), strict=True))
    if not (isinstance(gold, sp.Basic) and isinstance(answer, sp.Basic)) or gold == answer:
        return True
    if isinstance(gold, sp.FiniteSet) and isinstance(answer, sp.FiniteSet):
        return all(any(_agree(x, y, scales) for y in answer) for x in gold)
    if isinstance(gold, sp.Expr) and isinstance(answer, sp.Expr):
        return not (gold.is_number and answer.is_number) or _equal_numbers(gold, answer, scales)
    if gold.func != answer.func or len(gold.args) != len(answer.args):
        return True
    parts = zip(gold.args, answer.args, strict=True)
    return all(_agree(x, y, scales) for x, y in parts) or _equal_at_second_look(gold, answer)


def _equal_numbers(gold: Any, answer: Any, scales: tuple[int, ...] = (1,)) -> bool:
    tolerance = 1e-5 if gold.has(sp.Float) or answer.has(sp.Float) else 1e-40
    # Parsed expressions are not evaluated: 50 % is 50*(1/100).
    x, y = sp.N(gold.doit(), _DIGITS), sp.N(answer.doit(), _DIGITS)
    if not (x.is_finite and y.is_finite):
        return bool(x == y)
    pairs = [pair for scale in scales for pair in ((x, scale * y), (scale * x, y))]
    differences = [(abs(a - b), tolerance * abs(a)) for a, b in pairs]
    return any(d <= most for d, most in differences if d.is_comparable and most.is_comparable)


def _equal_at_second_look(gold: Any, answer: Any) -> bool:
    """Return whether complex numbers, lines or inequalities are equal."""
    if isinstance(gold, sp.Expr) and isinstance(answer, sp.Expr):
        symbols = gold.free_symbols | answer.free_symbols
        if {str(symbol) for symbol in symbols} != {"i"}:
            return False
        values = [side.subs(dict.fromkeys(symbols, sp.I)) for side in (gold, answer)]
        return _equal_numbers(values[0], values[1])
    if isinstance(gold, sp.Eq) and isinstance(answer, sp.Eq):
        sides: list[Any] = [*gold.args, *answer.args]
        if not all(isinstance(side, sp.Expr) for side in sides):
            return False
        left, right = sides[0] - sides[1], sides[2] - sides[3]
        return right != 0 and sp.cancel(left / right).is_number
    are_relations = all(isinstance(side, sp.And | Relational) for side in (gold, answer))
    return are_relations and _canonical(gold) == _canonical(answer)


def _canonical(relation: Any) -> set[Any]:
    """Return the parts of `1 < x < 2`, each the same way round."""
    parts = relation.args if isinstance(relation, sp.And) else (relation,)
    return {part.canonical for part in parts if isinstance(part, Relational)}


# Whether all numbers were read


def _has_unread_numbers(gold: str, answer: str) -> bool:
    """Whether some number could be any other, and the answer would still match."""
    values = {form: _parse(form)[0] for form in (answer, gold)}
    is_loose = any(map(_is_loose, values.values()))
    return any(
        all(
            _parse(other)[:1] == [value]
            or _match(*(gold, other) if form is answer else (other, answer), is_changed=True)
            for other in others
        )
        for form, value in values.items()
        for others in _other_numbers(form, Counter() if is_loose else _numbers_read(value))
    )


def _other_numbers(form: str, read: Counter[str]) -> Iterator[list[str]]:
    """Yield the form with others in place of each number that may not have been read."""
    written = Counter(_NUMBER.findall(form))
    for found in _NUMBER.finditer(form):
        before, behind = form[: found.start()], form[found.end() :]
        if read[found[0]] < written[found[0]] and not _NO_VALUE.search(before):
            whole, point, decimals = found[0].partition(".")
            # two: C(5, 2) is C(5, 3)
            yield [f"{before}{int(whole) + more}{point}{decimals}{behind}" for more in (1, 5)]


def _is_loose(value: Any) -> bool:
    """Whether math-verify compares it in part (a relation), rounded, or as a string."""
    return isinstance(value, Relational | sp.And | str) or value.has(sp.Float)


def _numbers_read(value: Any) -> Counter[str]:
    """Return how often each whole number was surely read: 1/x and -x need no 1, and roots no 2."""
    is_matrix = isinstance(value, sp.MatrixBase)
    if not is_matrix and not isinstance(value, _COMPARED):
        return Counter()
    parts = value.flat() if is_matrix else [value]
    nodes: list[Any] = [node for part in parts for node in sp.preorder_traversal(part)]
    return Counter(str(abs(n)) for n in nodes if n.is_Integer and n is not sp.S.NegativeOne)


def _clearly_differ(gold: Any, answer: Any) -> bool:
    """Whether no comparison is needed: math-verify compares all parts of what it has read."""
    if _is_loose(gold) or _is_loose(answer):
        return False
    if not (isinstance(gold, sp.Expr) and isinstance(answer, sp.Expr)):
        return True
    letters = sorted(gold.free_symbols | answer.free_symbols, key=str)
    place: Any = {letter: sp.Rational(2 * k + 7, k + 5) for k, letter in enumerate(letters)}
    x, y = (sp.N(value.doit().subs(place), _DIGITS) for value in (gold, answer))
    return bool(abs(x - y) > 1e-9 * (1 + abs(x)))
