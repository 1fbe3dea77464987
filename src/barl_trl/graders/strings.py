"""What all modules here need to know of a text."""

import re
from decimal import Decimal
from typing import Any

_EXACT_FLOAT = 2**53  # from here on a float is no longer a certain integer
_MAX_DIGITS = 100
_BRACE = re.compile(r"\\.|[{}\\]", re.DOTALL)


def is_balanced(text: str) -> bool:
    r"""Return whether every brace is matched.

    `\{` and `\}` are not braces. A lone backslash at the end is not balanced: it would escape
    whatever is put behind it.
    """
    depth = 0
    for token in _BRACE.finditer(text):
        depth += (token[0] == "{") - (token[0] == "}")
        if depth < 0 or token[0] == "\\":
            return False
    return depth == 0


def plain_text(value: Any) -> str | None:
    """Return a cell as text: the float 27.0 as "27", a list of one item as that item."""
    if isinstance(value, list) and len(value) == 1:
        return plain_text(value[0])
    if isinstance(value, str):  # JSON may escape half of a surrogate pair
        return None if re.search("[\ud800-\udfff]", value) else value
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, Decimal) or (isinstance(value, float) and abs(value) < _EXACT_FLOAT):
        number = Decimal(str(value))
        if abs(number.adjusted()) > _MAX_DIGITS:  # 1e999999999 would fill the memory
            return str(number)
        whole = number.to_integral_value()
        return format(whole if number == whole else number, "f")
    return None
