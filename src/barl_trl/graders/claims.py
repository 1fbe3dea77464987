r"""What an answer claims: the sides of `x = 2 + 4 = 6` without the name in front."""

import re

from .normal_form import TEXT

# Not inside braces (`k=1` of a sum), nor in `x != 3`; `3! = 6` is one.
_EQUALS = re.compile(r"(?:(?<![<>:=])(?<![^\d)}]!)==?(?!=)|\\approx(?![A-Za-z]))(?![^{}]*\})")
# A remainder, a sum or an integral is asked for, and names its value.
_ASKED = re.compile(r"\\(?:[bp]?mod|sum|prod|i*nt|lim)(?![a-z])|\\begin\{vmatrix\}")
_NO_NAME = re.compile(r"\A-|\d|[<>]|\\(?:l|g|n)eq?(?![A-Za-z])|\b(?:or|not|no|wrong)\b")
_LETTER = re.compile(r"\\(?!pi|frac|sqrt|cdot|times)[a-z]{2}")  # \lambda
_INDEX = re.compile(r"\^\{-1\}|_(?:\{[^{}]*\}|\w)|[A-Za-z]\([^()]*\)")
_SEVERAL = re.compile(r"\b(?:or|and)\b|[,;]|\\(?:lor|vee|land|wedge|pm|mp|cup|in)(?![A-Za-z])")
_BRACKETS = re.compile(r"[(\[][^()\[\]]*[)\]]")
_POINT = re.compile(r"\A[A-Z] ?(?=\([^(),]+,[^()]+\)\Z)")
_DOMAIN = re.compile(
    r"(.*[^ ,(;])[ ,(;]*(?:\\text\{[ ,]*(?:where|for|with)\b[a-z ,]*\}[ ,]*)?"
    r"\(?([A-Za-z]) ?\\in ?\\mathbb(\{[A-Z]\}(?:[_^](?:\{[^{}]*\}|[+*]))?)\)?"
)


def claims(gold: str, answer: str) -> tuple[str, list[str]]:
    """Return the true value, and the values that an answer claims; each must be the true one.

    A name in front claims nothing. Equations (`6=x`, not `2+4=6`) and lists claim themselves. All
    are normal forms.
    """
    gold, answer = _of_all(_POINT.sub("", gold), _POINT.sub("", answer))
    truth, sides = ([side.strip() for side in _EQUALS.split(form)] for form in (gold, answer))
    is_equation = any(variables(side) or _LETTER.search(TEXT.sub("", side)) for side in sides)
    value, is_pair = _without_names(truth), is_equation and len(truth) == len(sides) == 2
    if is_pair and truth[0] == sides[0] and len(value) == 1:
        return value[0], sides[1:]
    is_list = any(_SEVERAL.search(_BRACKETS.sub("", form)) for form in (gold, answer))
    if is_list or is_pair or (len(value) > 1 and r"\approx" not in gold):
        return gold, [answer]
    return value[0], _without_names(sides)


def _without_names(sides: list[str]) -> list[str]:
    named = [side == "" or _is_name(side) for side in sides[:-1]]
    return sides[named.index(False) if False in named else len(named) :]


def _of_all(gold: str, answer: str) -> tuple[str, str]:
    r"""`k\pi` of `k\pi, k\in\mathbb{Z}`; of `n\pi, n\in\mathbb{Z}` too, in the same variable."""
    true, given = _DOMAIN.fullmatch(gold), _DOMAIN.fullmatch(answer)
    if not true or (given and given[3] != true[3]):
        is_said = given and not true and given[2] in variables(gold)  # f(x) = x^2, x \in R
        return gold, given[1] if given and is_said else answer
    if given and given[2] != true[2] and true[2] not in variables(given[1]):
        pieces = rf"{TEXT.pattern}|\\[A-Za-z]+|{given[2]}"
        return true[1], re.sub(pieces, lambda it: it[0] if it[0][1:] else true[2], given[1])
    return true[1], given[1] if given and given[2] == true[2] else answer


def _is_name(segment: str) -> bool:
    """Whether it claims nothing: `x`, `a+b`, `f(2)`, but neither `6x` nor `-x` nor `(y,x)`."""
    bare = _INDEX.sub("", segment)
    letters = [letter for letter in bare if letter.isalpha()]
    if bare[:1] == "(" and letters != sorted(letters):
        return False
    has_letter = variables(segment) or TEXT.search(segment) or _LETTER.search(bare)
    return bool(_ASKED.search(segment) or (has_letter and not _NO_NAME.search(bare)))


def variables(form: str) -> set[str]:
    """Return the letters outside words and commands."""
    form = re.sub(r"\\[A-Za-z]+", "", TEXT.sub("", form))
    return {letter for letter in form if letter.isalpha()}
