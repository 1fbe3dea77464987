r"""What an answer claims: the sides of `x = 2 + 4 = 6` without the name in front.

math-verify takes the last side and believes it.
"""

import re

from ..normal_form import TEXT
from .numbers import number

_COMMAND = re.compile(r"\\[A-Za-z]+")
# No parser at hand knows the value of remainders and determinants: they name what follows.
_UNREAD = re.compile(r"\\(?:[bp]?mod|sum|prod|i*nt|lim)(?![a-z])|\\begin\{vmatrix\}")
_GREEK = re.compile(
    r"\\(?:var)?(?:alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|rho"
    r"|sigma|tau|upsilon|phi|chi|psi|omega)(?![a-z])",
    re.IGNORECASE,
)
_GROUP = re.compile(r"(?<!\\)\{[^{}]*(?<!\\)\}")
_EQUALS = re.compile(r"(?<![<>:=])(?<![^\d)}]!)==?(?!=)")  # x != 3 is no equation, 3! = 6 is one
_APPROXIMATELY = re.compile(r"\\approx(?![A-Za-z])")
_NO_NAME = re.compile(r"\A-|\d|[<>]|\\(?:l|g|n)eq?(?![A-Za-z])|\\approx|\b(?:or|not|no|wrong)\b")
_SUBSCRIPT = re.compile(r"\^\{-1\}|_(?:\{[^{}]*\}|\w)|[A-Za-z]\([^()]*\)")
_SEVERAL = re.compile(r"\b(?:or|and)\b|[,;]|\\(?:lor|vee|land|wedge|pm|mp|cup|in)(?![A-Za-z])")
_BRACKETS = re.compile(r"[(\[][^()\[\]]*[)\]]")
_FUNCTION = re.compile(r"([A-Za-z])\(([A-Za-z])\)")
_POINT = re.compile(r"\A[A-Z] ?(?=\([^(),]+,[^()]+\)\Z)")
_DOMAIN = re.compile(
    r"(.*[^ ,(;])[ ,(;]*(?:\\text\{[ ,]*(?:where|for|with)\b[a-z ,]*\}[ ,]*)?"
    r"\(?([A-Za-z]) ?\\in ?\\mathbb(\{[A-Z]\}(?:[_^](?:\{[^{}]*\}|[+*]))?)\)?"
)
_MEMBER = re.compile(r"((?:[A-Za-z]|\\[a-z]+) ?)\\in(?![A-Za-z]) ?(?=[^A-Za-z])")


def claims(gold: str, answer: str) -> tuple[str, list[str]]:
    r"""Return the true value, and the values that an answer claims; each must be the true one.

    A name in front claims nothing: it has a letter that the value has not, and no numbers. Of
    `a \approx b` the first value counts. Equations and lists claim themselves.

    Args:
        gold: The true answer, in its normal form.
        answer: The answer to judge, in its normal form.
    """
    gold, answer = _of_all(gold, answer)
    gold = _exact_part(gold, set())
    if not _is_rounded(gold, answer):
        answer = _exact_part(answer, _names(gold))
    truth, answer = _without_member(gold, answer)
    sides = _sides(truth)
    name, value = sides[0], sides[-1]
    own = _in_variable_of(name, _sides(answer))
    is_same_name = name == own[0]
    if len(sides) == len(own) == 2 and is_same_name and _names(name) != _names(value):
        return value, own[1:]
    is_renamed = len(own) == 2 and ("(" in name) != ("(" in own[0])  # y = 2x, f(x) = 2x
    if (
        any(_SEVERAL.search(_BRACKETS.sub("", form)) for form in (truth, answer))
        or (len(sides) > 1 and not _is_name(name, _names(value)))  # an equation
        or (len(sides) == 2 and len(own) > 1 and not (is_same_name or is_renamed))  # x = 2, y = 2
    ):
        return truth, [answer]
    while len(own) > 1 and _is_name(own[0], _names(value)):
        own.pop(0)
    return value, own


def _of_all(gold: str, answer: str) -> tuple[str, str]:
    r"""`k\pi` of `k\pi, k\in\mathbb{Z}`; of `n\pi, n\in\mathbb{Z}` too, in the same variable."""
    if gold.startswith("(") or answer.startswith("("):  # P(1, 2)
        gold, answer = (_POINT.sub("", form) for form in (gold, answer))
    true, given = _DOMAIN.fullmatch(gold), _DOMAIN.fullmatch(answer)
    if not true or (given and given[3] != true[3]):
        is_said = given and not true and given[2] in variables(gold)  # f(x) = x^2, x \in R
        return gold, given[1] if given and is_said else answer
    if given and true[2] not in variables(given[1]):
        return true[1], _renamed(given[1], given[2], true[2])
    return true[1], given[1] if given and given[2] == true[2] else answer


def _renamed(form: str, old: str, new: str) -> str:
    pieces = rf"{TEXT.pattern}|\\[A-Za-z]+|{old}"
    return re.sub(pieces, lambda it: it[0] if it[0][1:] else new, form)


def _sides(form: str) -> list[str]:
    """Split at the equals signs outside braces: `k=1` of a sum is none."""
    masked, before = form, ""
    while masked != before:
        before, masked = masked, _GROUP.sub(lambda group: "_" * len(group[0]), masked)
    ends = [0, *(end for sign in _EQUALS.finditer(masked) for end in sign.span()), len(form)]
    return [form[a:b].strip() for a, b in zip(ends[::2], ends[1::2], strict=True)]


def _in_variable_of(name: str, sides: list[str]) -> list[str]:
    """Write the sides of `f(z) = z` as `f(x) = x`, if the true answer's name is `f(x)`."""
    true, given = _FUNCTION.fullmatch(name), _FUNCTION.fullmatch(sides[0])
    if not true or not given or len(sides) < 2 or true[2] in "".join(sides):
        return sides
    return [_renamed(side, given[2], true[2]) for side in sides]


def _without_member(gold: str, answer: str) -> tuple[str, str]:
    r"""`(1, 2)` of `x \in (1, 2)`, unless they name different things."""
    found = [_MEMBER.match(form) for form in (gold, answer)]
    if len({match[1].strip() for match in found if match}) > 1:
        return gold, answer
    first, second = (match.end() if match else 0 for match in found)
    return gold[first:], answer[second:]


def _is_rounded(gold: str, answer: str) -> bool:
    r"""Whether it is `2\sqrt{3} \approx 3.46` for 3.46."""
    exact, sign, rounded = TEXT.sub("", answer).rpartition(r"\approx")
    value = TEXT.sub("", gold.rpartition("=")[2]).strip()
    is_one = sign and not _APPROXIMATELY.search(exact) and not _is_name(exact or "x", set())
    return bool(is_one and re.fullmatch(r"-?\d*\.\d+", value) and rounded.strip() == value)


def _exact_part(form: str, known: set[str]) -> str:
    r"""Return a of `a \approx b`; `a = b` if both are names, or numbers more than 1 % apart."""
    parts = [part.strip() for part in _APPROXIMATELY.split(form) if part.strip()] or [form]
    while len(parts) > 1 and _is_name(parts[0], known):
        parts.pop(0)
    if all(_is_name(part, set()) for part in parts):  # A \approx B
        return "=".join(parts)
    found = [number(part.rpartition("=")[2]) for part in parts]
    first, *others = [value.value for value in found if value] or [0]
    is_near = all(abs(first - other) * 100 <= abs(first) for other in others)
    return parts[0] if is_near and "=" not in "".join(parts[1:]) else "=".join(parts)


def _is_name(segment: str, known: set[str]) -> bool:
    """Whether it claims nothing: `x`, `a+b`, `f(2)`, but neither `6x` nor `-x` nor `(y,x)`."""
    if _UNREAD.search(segment):
        return True
    bare = _SUBSCRIPT.sub("", segment)
    letters = [letter for letter in bare if letter.isalpha()]
    is_unsorted = bare[:1] == "(" and letters != sorted(letters)
    return bool(_names(segment) - known) and not is_unsorted and not _NO_NAME.search(bare)


def _names(form: str) -> set[str]:
    """Return words, Greek letters and variables, but for pi, which is a number."""
    found = (pattern.findall(form) for pattern in (TEXT, _GREEK, _UNREAD))
    return variables(form).union(*found)


def variables(form: str) -> set[str]:
    """Return the letters outside words and commands."""
    return {letter for letter in _COMMAND.sub("", TEXT.sub("", form)) if letter.isalpha()}
