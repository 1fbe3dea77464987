"""Why an answer is not handed to a parser: it could cost seconds or gigabytes there."""

import re
import unicodedata
from itertools import accumulate

MAX_TRUTH_CHARS = 512  # longest admissible true answer: no parser gets longer ones

_BRACE = re.compile(r"\\.|[{}\\]", re.DOTALL)
_POWER = r"(?:\^|\*\*)[\s{(+-]*"
_HUGE = re.compile(  # five digits, three digits twice, and towers but for `2^{3^2}`
    rf"{_POWER}(?!10000(?!\d))\d{{5}}|{_POWER}\d{{3,}}[\s}})]*{_POWER}\d{{3}}"
    rf"|{_POWER}\d+{_POWER}(?:\d+{_POWER}|\d\d|[4-9])|{_POWER}\d\d+{_POWER}\d"
)
_FACTORIAL = re.compile(r"\d{5}[\s)}]*!|![\s)}\]]*!|\\[dt]?binom[\s{]*\d{5}|\\det|Gamma\W*\d{4}")
_COSTLY = re.compile(r"\\(?:sum|prod|i*nt|oint|lim|gcd|lcm|Gamma)(?![A-Za-z])")


def is_balanced(text: str) -> bool:
    r"""Return whether every brace but `\{` is matched, and no lone backslash stands at the end."""
    depth = 0
    for token in _BRACE.finditer(text):
        depth += (token[0] == "{") - (token[0] == "}")
        if depth < 0 or token[0] == "\\":
            return False
    return depth == 0


def has_unseen_characters(text: str) -> bool:
    """Return whether some character is a control character, a line break or an invisible mark."""
    # Control, zero-width and bidirectional marks, lone surrogates, separators
    return any(unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp") for one in text)


def why_not_compared(answer: str, gold: str = "") -> str | None:
    """Return why a normal form is not handed to a parser, None if it may be.

    Where `gold` has a sum, an integral or the like, so may the answer: a policy may not choose one.
    """
    if len(answer) > MAX_TRUTH_CHARS:
        return "length"
    if not is_balanced(answer) or has_unseen_characters(re.sub(r"[\n\t]", " ", answer)):
        return "no formula"
    depths = accumulate((one in "([{") - (one in ")]}") for one in answer)
    if max(depths, default=0) > 12:
        return "nesting"
    if _HUGE.search(answer):
        return "exponent"
    is_costly = _COSTLY.search(answer) and not _COSTLY.search(gold)
    return "costly operation" if is_costly or _FACTORIAL.search(answer) else None
