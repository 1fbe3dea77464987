r"""What the characters of an answer say against it, whatever a parser makes of it.

math-verify reads `40\text{ red}, 50\text{ blue}` as 40, `10_3` and `10_2` as 10, `3 250` as 253, an
array as its last number, kilograms as centimetres and `X` as `x`. [`doubt`] names the reason.
"""

import re
from collections.abc import Callable

_COMMAND = re.compile(r"\\[A-Za-z]+")
_MODULO = re.compile(r"\\[bp]?mod(?![a-z])")
_GREEK = re.compile(
    r"\\(?:var)?(?:alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|rho"
    r"|sigma|tau|upsilon|phi|chi|psi|omega)(?![a-z])",
    re.IGNORECASE,
)
_TEXT = re.compile(r"\\(?:text|textbf|textit|textrm|textnormal|mathrm|mbox)\{([^{}]*)\}")
_UNIT_POWER = re.compile(rf"{_TEXT.pattern}\^\{{?(\d)")
_DOTS = re.compile(r"\\[lc]?dots(?![A-Za-z])|\.\.\.|…")
_WORDS = re.compile(rf"(?:{_TEXT.pattern.replace('[^{}]*', '[^{}0-9]*')})(?:\^(?:\{{-?\d\}}|\d))?")
_CONJUNCTION = re.compile(r"\\(?:text|mbox)\{[ ,]*(?:and|or)[ ,]*\}")
_EQUALS = re.compile(r"(?<![<>!:=])=(?!=)")
_OR = re.compile(r"\b[oO][rR]\b|\\(?:lor|vee|pm|mp)(?![A-Za-z])")
_SEVERAL = re.compile(r"\b(?:or|and)\b|[,;]|\\(?:lor|vee|land|wedge|pm|mp|cup|in)(?![A-Za-z])")
_BASE = re.compile(r"\d\}?_\{?(\d+)")

_UNITS = {
    alias: aliases.split()[0]
    for aliases in (
        *("mm millimeter millimetre", "cm centimeter centimetre", "m meter metre"),
        *("km kilometer kilometre", "in inch inche", "ft foot feet", "yd yard", "mi mile"),
        *("mg milligram", "g gram", "kg kilogram", "lb pound", "oz ounce"),
        *("s sec second", "min minute", "h hr hour", "day", "week", "month", "yr year"),
        *("ml milliliter millilitre", "l liter litre"),
    )
    for alias in aliases.split()
}


def doubt(gold: str, answer: str) -> str | None:
    r"""Return why an answer cannot be the true one, None if nothing speaks against it.

    Args:
        gold (`str`):
            The true answer, in its normal form.
        answer (`str`):
            The answer to judge, in its normal form.

    Returns:
        `str | None`:
            `"alternatives"` (`1 or 2`, `\pm 1` for one answer), `"base"`, `"units"` (kg for cm),
            `"numbers"` (others between words), `"rows"`, `"brackets"`, `"dots"`, `"digits apart"`
            or `"capitals"`.

    Example:
        >>> doubt("10_2", "10_3"), doubt("10_2", "10")
        ('base', None)
    """
    for reason, speaks_against in _DOUBTS.items():
        if speaks_against(gold, answer):
            return reason
    return None


def chain(gold: str, answer: str) -> list[str]:
    r"""Return the values that an answer `a = b = c` claims; each must be the true answer.

    What stands before the first `=` is a name, and claims nothing, if it has a letter that the true
    answer has not. No chain, and no values: an answer without `=`, several equations, or one
    equation where the true answer is one too.

    Args:
        gold (`str`):
            The true answer, in its normal form.
        answer (`str`):
            The answer to judge, in its normal form.

    Example:
        >>> chain("6", "5=6"), chain("6", "x=2+4=6"), chain("6", "6"), chain("x=6", "x=6.0")
        (['5', '6'], ['2+4', '6'], [], [])
    """
    segments = [segment.strip() for segment in _EQUALS.split(answer)]
    has_several = _SEVERAL.search(answer) is not None
    if len(segments) < 2 or has_several or (len(segments) == 2 and _EQUALS.search(gold)):
        return []
    known = _names(_EQUALS.split(gold)[-1])
    while len(segments) > 1 and _names(segments[0]) - known:
        segments.pop(0)
    return segments


def _names(form: str) -> set[str]:
    r"""Words, Greek letters and variables, but for pi, which is a number.

    Remainders too: no parser at hand knows what `17 \bmod 5` is.
    """
    return {
        *_TEXT.findall(form),
        *_GREEK.findall(form),
        *_MODULO.findall(form),
        *_variables(form),
    }


def _variables(form: str) -> set[str]:
    return {letter for letter in _COMMAND.sub("", _TEXT.sub("", form)) if letter.isalpha()}


def _offers_alternatives(gold: str, answer: str) -> bool:
    return _OR.search(answer) is not None and _SEVERAL.search(gold) is None


def _has_another_base(gold: str, answer: str) -> bool:
    bases, own = set(_BASE.findall(gold)), set(_BASE.findall(answer))
    return bool(bases and own) and bases != own


def _has_other_units(gold: str, answer: str) -> bool:
    units, own = _units(gold), _units(answer)
    powers, own_powers = _unit_powers(gold), _unit_powers(answer)
    has_other_powers = bool(powers and own_powers) and powers != own_powers
    return has_other_powers or (bool(units and own) and units != own)


def _units(form: str) -> set[str]:
    names = re.findall(r"[A-Za-z]+", " ".join(_TEXT.findall(form)).lower())
    singular = (name if name in _UNITS else name.removesuffix("s") for name in names)
    return {_UNITS[name] for name in singular if name in _UNITS}


def _unit_powers(form: str) -> set[str]:
    return {power for _, power in _UNIT_POWER.findall(form)}


def _has_other_numbers(gold: str, answer: str) -> bool:
    """Whether there are more or fewer numbers between words, or others between several nouns."""
    numbers, own = _numbers(gold), _numbers(answer)
    nouns = _CONJUNCTION.sub("", gold), _CONJUNCTION.sub("", answer)
    if all(map(_WORDS.search, nouns)) and len(numbers) > 1:
        return numbers != own
    has_words = any(map(_WORDS.search, (gold, answer)))
    return has_words and r"\pm" not in gold and len(numbers) != len(own)


def _numbers(form: str) -> list[str]:
    """What stands between words and commas, if it has a digit."""
    pieces = re.split(r"[,;]", _WORDS.sub(",", form))
    return [piece.strip(" \\") for piece in pieces if any(map(str.isdigit, piece))]


def _has_other_rows(gold: str, answer: str) -> bool:
    return _count_rows(gold) != _count_rows(answer)


def _count_rows(form: str) -> int:
    return form.count(r"\\") if r"\begin" in form else 0


def _has_other_brackets(gold: str, answer: str) -> bool:
    """Whether one is a set and the other a pair or an interval."""
    return {_bracket(gold), _bracket(answer)} == {"set", "pair"}


def _bracket(form: str) -> str | None:
    if form.startswith(r"\{") and form.endswith(r"\}") and form.count(r"\{") == 1:
        return "set"
    return "pair" if form[:1] in ("(", "[") and form[-1:] in (")", "]") else None


def _goes_on(gold: str, answer: str) -> bool:
    return (_DOTS.search(gold) is None) != (_DOTS.search(answer) is None)


def _has_digits_apart(gold: str, answer: str) -> bool:
    return any(re.search(r"(?<![_\d])\d+ \d", form) for form in (gold, answer))


def _has_other_capitals(gold: str, answer: str) -> bool:
    """Whether variables differ, and only in that."""
    names, own = _variables(gold), _variables(answer)
    return names != own and {n.casefold() for n in names} == {n.casefold() for n in own}


_DOUBTS: dict[str, Callable[[str, str], bool]] = {
    "alternatives": _offers_alternatives,
    "base": _has_another_base,
    "units": _has_other_units,
    "numbers": _has_other_numbers,
    "rows": _has_other_rows,
    "brackets": _has_other_brackets,
    "dots": _goes_on,
    "digits apart": _has_digits_apart,
    "capitals": _has_other_capitals,
}
