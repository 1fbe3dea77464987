"""What a parser makes of two answers. It runs only in the processes that can be killed.

latex2sympy, the parser of math-verify, reads all of a form or raises an error. What it has read is
compared part by part, and formulas by their values. docs/graders.md says why not by math-verify.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import sympy as sp
from latex2sympy2_extended import NormalizationConfig, latex2sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, FiniteSet
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

from .numbers import Tolerance

_TEX = NormalizationConfig(boxed="none", malformed_operators=True)
_CASES = ConversionConfig(lowercase_symbols=False)
_UNREAD = re.compile(  # the parser drops these
    r"\\[a-z]?dots(?![A-Za-z])|\.\.\.|…|'|:[^:]*:|\d_(?!\{\\te)"
    r"|\|[_^]|\{\\empty|\\[hv]?phantom"
)
_PRODUCT = re.compile(r"(?<![\w^_.{}\\])(\(?\d+\)?) ?(?=\(|\{\()")  # 3(1/4) is no mixed number
_CAPITAL_I = re.compile(r"\\[A-Za-z]+|I")  # a name: the parser would take I and I^2 for i
_SIGN = re.compile(r"\\(pm|mp)(?![A-Za-z])")
_NAMES = (AppliedUndef, sp.Derivative)  # f(x), and dy/dx, which is 0 to sympy
_EXACT = sp.Float("1e-40", 20)
# The k-th letter is (p + k^2 q) / (k + 1). At the last point roots differ: only real values count.
_POINTS = (("37/23", "19/11"), ("53/17", "-61/29"), ("-41/19", "13/31"))


def parsed_equal(gold: str, answer: str, *near: Any) -> bool:
    """Return whether an answer means the true one, within the [`Tolerance`] with fields `near`."""
    try:
        return _same(_read(gold), _read(answer), Tolerance(*near))
    except (MemoryError, RecursionError):
        raise  # nobody knows what is left of the libraries: the process has to end
    except Exception:  # what the parser raises for what it cannot read; sympy gives up in many ways
        return False


@lru_cache(1024)  # a prompt's answers are compared with each other
def _read(form: str) -> Any:
    if _UNREAD.search(form):
        raise ValueError(form)
    if _SIGN.search(form):
        both = [_SIGN.sub(lambda it, s=s: s[it[1] == "mp"], form) for s in ("+-", "-+")]
        return FiniteSet(*(part for one in both for part in _elements(_read(one))))
    latex = _PRODUCT.sub(r"\1\\cdot ", form).replace("%", r"\%")
    latex = _CAPITAL_I.sub(lambda it: r"\Xi " if it[0] == "I" else it[0], latex)
    value: Any = latex2sympy(latex, normalization_config=_TEX, conversion_config=_CASES)
    if value.has(*_NAMES):
        value = value.replace(lambda x: isinstance(x, _NAMES), lambda x: sp.Symbol(str(x)))
    elements = _elements(value)
    if len(elements) == 1:
        is_made = isinstance(elements[0], sp.Set | sp.MatrixExpr)
        return elements[0].doit() if is_made else elements[0]
    if elements and all(map(_is_inequality, elements)):
        excluded = [x for x in elements if isinstance(x, sp.Ne)]
        others = [x for x in elements if not isinstance(x, sp.Ne)]
        # x < 1 or x > 3, but x != 1 and x != 3
        return sp.And(*excluded, sp.Or(*others, not others)).as_set()
    return (sp.FiniteSet if form[:2] == r"\{" else FiniteSet)(*elements)  # lists have an order


def _elements(value: Any) -> list[Any]:
    """Return the elements of a list in their order, each with the name of the list: `x = 2, 3`."""
    name, values = value.args if isinstance(value, sp.Eq) else (None, value)
    if not isinstance(values, sp.FiniteSet):
        return [value]
    elements = []
    for element in getattr(values, "_unsorted_args", values.args):
        name = element.lhs if isinstance(element, sp.Eq) else name
        is_bare = name is not None and not isinstance(element, sp.Eq)
        elements.append(sp.Eq(name, element, evaluate=False) if is_bare else element)
    return elements


def _is_inequality(value: Any) -> bool:
    return isinstance(value, Relational | sp.And) and not isinstance(value, sp.Eq)


def _same(a: Any, b: Any, near: Tolerance) -> bool:
    are_equations = [isinstance(side, sp.Eq) for side in (a, b)]
    if a == b and not any(are_equations):
        return not a.has(sp.nan, sp.zoo)
    if isinstance(a, Relational) and isinstance(b, Relational) and _same_relations(a, b, near):
        return True
    if any(are_equations):
        bare = _without_name(a), _without_name(b)
        is_bare = not any(isinstance(side, sp.Eq) for side in bare)
        return not all(are_equations) and is_bare and _same(*bare, near)
    if isinstance(a, sp.Expr) and isinstance(b, sp.Expr):
        is_number = not (a.free_symbols | b.free_symbols) - {sp.Symbol("i")}
        pairs, near = _values(a, b), near if is_number else Tolerance()
        return bool(pairs) and all(_equal(*pair, near) for pair in pairs)
    (kind, parts), (other_kind, others) = _parts(a), _parts(b)
    if {kind, other_kind} in ({"and"}, {"union"}, {"list"}, {"set"}, {"list", "set"}):
        are_there = all(any(_same(x, y, near) for y in others) for x in parts)
        return are_there and all(any(_same(x, y, near) for x in parts) for y in others)
    if _is_inequality(a) or _is_inequality(b):
        letters = [side.free_symbols for side in (a, b) if _is_inequality(side)]
        a, b = (sp.Or(x).as_set() if _is_inequality(x) else x for x in [a, b])
        are_sets = all(isinstance(side, sp.Interval | sp.Union) for side in (a, b))
        return letters[0] == letters[-1] and are_sets and _same(a, b, near)
    is_tuple = "pair" in (kind, other_kind) and {"list", "row", "column"} & {kind, other_kind}
    return bool(is_tuple or kind == other_kind != "") and _all_same(parts, others, near)


def _parts(value: Any) -> tuple[str, Sequence[Any]]:
    """Return what kind of list a value is, and its parts. `(1, 2)` may be a pair or an interval."""
    if isinstance(value, sp.MatrixBase):
        return {value.rows: "row", value.cols: "column"}.get(1) or str(value.shape), value.flat()
    if isinstance(value, sp.Interval):
        is_open = value.left_open and value.right_open
        return "pair" if is_open else str(value.args[2:]), value.args[:2]
    if isinstance(value, sp.FiniteSet):
        return "list" if isinstance(value, FiniteSet) else "set", _elements(value)
    kinds = {sp.Tuple: "pair", sp.Union: "union", sp.And: "and"}
    return next((kinds[kind] for kind in kinds if isinstance(value, kind)), ""), value.args


def _all_same(parts: Sequence[Any], others: Sequence[Any], near: Tolerance) -> bool:
    pairs = zip(parts, others, strict=False)
    return len(parts) == len(others) and all(_same(part, other, near) for part, other in pairs)


def _without_name(value: Any) -> Any:
    """Return the right side of an equation that names it: 5 of `x = 5`; else the value."""
    is_named = isinstance(value, sp.Eq) and not value.lhs.atoms(sp.Number)
    return value.rhs.doit() if is_named else value


def _same_relations(a: Any, b: Any, near: Tolerance) -> bool:
    b = b if a.rel_op == b.rel_op else b.reversed
    if a.rel_op != b.rel_op:
        return False
    names = [str(side.lhs) for side in (a, b) if side.rel_op == "==" and side.lhs.is_Symbol]
    is_function = sorted("(" in name for name in names) == [False, True]
    if len(names) == 2 and (names[0] == names[1] or (is_function and "Der" not in f"{names}")):
        return _same(a.rhs.doit(), b.rhs.doit(), near)  # y = 2x is f(x) = 2x
    if not all(isinstance(side, sp.Expr) for side in (*a.args, *b.args)):
        return any(_all_same(a.args, others, near) for others in (b.args, b.args[::-1]))
    pairs = _values(a.lhs - a.rhs, b.lhs - b.rhs)
    if len(pairs) < 2 or any(abs(value) < _EXACT for pair in pairs for value in pair):
        trees = [sp.preorder_traversal(side) for side in (a, b)]  # identities differ in these alone
        one, other = (sorted(str(x.func if x.args else x) for x in tree) for tree in trees)
        return one == other
    ratios = [x / y for x, y in pairs]
    is_turned = a.rel_op not in ("==", "!=") and not ratios[0] > 0
    return not is_turned and all(_equal(ratios[0], ratio, Tolerance()) for ratio in ratios)


def _equal(x: Any, y: Any, near: Tolerance) -> bool:
    return bool(near.allows(x, y, 0 if x.is_Rational and y.is_Rational else _EXACT))


def _values(*formulas: Any) -> list[tuple[Any, Any]]:
    """Return two formulas' values at some points, at one if they are numbers; [] if not finite."""
    decimals = set.union(*(formula.atoms(sp.Float) for formula in formulas))
    meant: dict[Any, Any] = {x: sp.Rational(str(x)) for x in decimals} | {sp.Symbol("i"): sp.I}
    formulas = tuple(formula.xreplace(meant).doit() for formula in formulas)
    letters = sorted(set.union(*(formula.free_symbols for formula in formulas)), key=str)
    pairs = []
    for p, q in (map(sp.Rational, point) for point in (_POINTS if letters else _POINTS[:1])):
        place = {letter: (p + k * k * q) / (k + 1) for k, letter in enumerate(letters)}
        pair = [formula.subs(place).doit() for formula in formulas]
        x, y = (value if value.is_Rational else sp.N(value, 60) for value in pair)
        if not (x.is_number and y.is_number and x.is_finite and y.is_finite):
            return []
        if p > 0 or (x.is_real and y.is_real):
            pairs.append((x, y))
    return pairs
