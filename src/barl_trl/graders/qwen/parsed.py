"""What latex2sympy2_extended and sympy make of two answers, for the conventions of Qwen2.5-Math.

Runs in the processes that can be killed, only there.
"""

import re
from typing import Any

from latex2sympy2_extended import NormalizationConfig, latex2sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig
from sympy import Expr, FiniteSet, MatrixBase, MatrixExpr, Set, nan, oo, simplify, zoo
from sympy.core.relational import Relational

_RELATIVE = 1e-4
_MATRIX_DECIMALS = 3

_EQUALS = re.compile(r"(?<![<>!:=])=(?!=)")


def symbolic_equal(gold: str, answer: str) -> bool:
    r"""Return whether two answers are equal as expressions, equations, relations, sets or matrices.

    Only for a process that can be killed: this may take for ever, and the memory of the machine.

    Args:
        gold: The true answer, normalised.
        answer: The answer to judge, normalised.

    Returns:
        Whether they are: numbers to a relative 1e-4, entries of matrices also to three decimals,
        equations whatever the side. False if one of them cannot be read.
    """
    try:
        return _equal(gold, answer)
    except (MemoryError, RecursionError):
        raise  # nobody knows what is left of the libraries: the process has to end
    except Exception:  # what the parser raises for what it cannot read; sympy gives up in many ways
        return False


def _equal(gold: str, answer: str) -> bool:
    equations = [_EQUALS.split(form) for form in (gold, answer)]
    if all(len(sides) == 2 for sides in equations):
        a, b, c, d = (_parsed(side) for sides in equations for side in sides)
        return _same(a - b, c - d) or _same(a - b, d - c)
    return _same(_parsed(gold), _parsed(answer))


def _parsed(form: str) -> Any:
    return latex2sympy(
        _as_latex(form),
        conversion_config=ConversionConfig(lowercase_symbols=False),
        normalization_config=NormalizationConfig(boxed="none"),
    )


def _as_latex(form: str) -> str:
    """Rewrite `sqrt(2)`, `x**2`, `2^(1/2)` and `pi`, which the parser would misread."""
    form = re.sub(r"(?<![\\A-Za-z])(?=(?:sqrt|pi|sin|cos|tan|ln|log|exp)(?![A-Za-z]))", r"\\", form)
    form = re.sub(r"\^(-(?:[0-9]+|[A-Za-z]))", r"^{\1}", form.replace("**", "^"))
    latex, closing = "", []
    for character in form:
        if character == "(":
            is_argument = latex.endswith(("^", r"\sqrt"))
            closing.append("}" if is_argument else ")")
            character = "{" if is_argument else "("
        elif character == ")" and closing:
            character = closing.pop()
        latex += character
    return latex


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Expr) and isinstance(b, Expr) and (a.has(oo, zoo) or b.has(oo, zoo)):
        return a == b and a in (oo, -oo)  # to sympy the difference to any number is none
    if isinstance(a, MatrixBase) and isinstance(b, MatrixBase):
        return a.shape == b.shape and all(map(_same_entry, a.flat(), b.flat()))
    if isinstance(a, FiniteSet) and isinstance(b, FiniteSet):
        pairs = ((a, b), (b, a))
        return all(any(_same(x, y) for y in other) for one, other in pairs for x in one)
    if isinstance(a, Relational) and isinstance(b, Relational):
        return _same_relation(a, b)
    if isinstance(a, (MatrixExpr, Set)) or not isinstance(a, Expr) or not isinstance(b, Expr):
        return bool(a == b)
    return _same_expression(a, b)


def _same_expression(a: Any, b: Any) -> bool:
    if not a.free_symbols and not b.free_symbols:
        values = a.evalf(), b.evalf()
        if all(value.is_Number and value.is_finite for value in values):
            return bool(abs(values[0] - values[1]) <= _RELATIVE * max(map(abs, values)))
    if a == b:
        return not a.has(nan, zoo)  # 1/0 is not 2/0
    decided = a.equals(b)
    return simplify(a - b) == 0 if decided is None else bool(decided)


def _same_relation(a: Any, b: Any) -> bool:
    if hasattr(a, "gts") != hasattr(b, "gts"):
        return False
    if hasattr(a, "gts"):
        is_weak = ["=" in relation.rel_op for relation in (a, b)]
        return is_weak[0] == is_weak[1] and _same(a.gts - a.lts, b.gts - b.lts)
    same_kind = a.rel_op == b.rel_op
    return same_kind and any(_same(a.lhs - a.rhs, side) for side in (b.lhs - b.rhs, b.rhs - b.lhs))


def _same_entry(a: Any, b: Any) -> bool:
    if a.is_number and b.is_number:
        rounded = [round(float(entry), _MATRIX_DECIMALS) for entry in (a, b)]
        return rounded[0] == rounded[1] or _same(a, b)
    return _same(a, b)
