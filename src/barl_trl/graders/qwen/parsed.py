"""What latex2sympy2_extended and sympy make of two answers, in a process that can be killed."""

from typing import Any

from latex2sympy2_extended import NormalizationConfig, latex2sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig
from sympy import Expr, FiniteSet, MatrixBase, nan, zoo
from sympy.core.relational import Relational

from .verify import RELATIVE

_CONFIG: dict[str, Any] = {
    "normalization_config": NormalizationConfig(boxed="none"),
    "conversion_config": ConversionConfig(lowercase_symbols=False),
}


def symbolic_equal(gold: str, answer: str) -> bool:
    """Return whether two normal forms are equal as expressions, relations, sets or matrices.

    Numbers to a relative 1e-4, matrices also to three decimals; what cannot be read is not equal.
    """
    try:
        return _same(*(latex2sympy(form, **_CONFIG) for form in (gold, answer)))
    except (MemoryError, RecursionError):
        raise  # nobody knows what is left of the libraries: the process has to end
    except Exception:  # what the parser raises for what it cannot read; sympy gives up in many ways
        return False


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, MatrixBase) and isinstance(b, MatrixBase):
        pairs = zip(a.flat(), b.flat(), strict=False)
        return a.shape == b.shape and all(_same(x, y) or x.round(3) == y.round(3) for x, y in pairs)
    if isinstance(a, FiniteSet) and isinstance(b, FiniteSet):
        return len(a) == len(b) and all(any(_same(x, y) for y in b) for x in a)
    if isinstance(a, Relational) and isinstance(b, Relational):
        sides: list[Any] = [a, b, b.reversed]
        differences = [side.lhs - side.rhs for side in sides if side.rel_op == sides[0].rel_op]
        return any(_same(differences[0], other) for other in differences[1:])
    if not isinstance(a, Expr) or not isinstance(b, Expr):
        return bool(a == b)
    x, y = a.evalf(), b.evalf()
    if x.is_Number and y.is_Number and x.is_finite and y.is_finite:
        return bool(abs(x - y) <= RELATIVE * max(abs(x), abs(y)))
    return bool(a.equals(b)) and not a.has(nan, zoo)  # 1/0 is not 2/0
