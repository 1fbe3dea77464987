r"""What the characters of an answer say against it, whatever a parser makes of it.

math-verify reads `40\text{ red}, 50\text{ blue}` as 40, `10_3` and `10_2` as 10, `3 250` as 253, an
array as its last number, kilograms as centimetres and `X` as `x`. [`doubt`] names the reason.
"""

import re
from collections.abc import Callable

from .vocabulary import QUANTITIES, UNDERSTOOD, UNITS

_COMMAND = re.compile(r"\\[A-Za-z]+")
_UNREAD = re.compile(r"\\[bp]?mod(?![a-z])|\\begin\{vmatrix\}")
_GREEK = re.compile(
    r"\\(?:var)?(?:alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|rho"
    r"|sigma|tau|upsilon|phi|chi|psi|omega)(?![a-z])",
    re.IGNORECASE,
)
_TEXT = re.compile(r"\\(?:text|textbf|textit|textrm|textnormal|mathrm|mbox)\{([^{}]*)\}")
_UNIT_POWER = re.compile(rf"{_TEXT.pattern}\^\{{?(\d)")
_MATH_MODE = re.compile(r"\$|(?<!\\)\\[()\[\]]")
_RELATION = re.compile(
    r"[=<>]|\\(?:in|leq?(?:slant)?|geq?(?:slant)?|[lg]t|neq?|or|lor|vee)(?![A-Za-z])|\bor\b"
)
_FUNCTION = re.compile(
    r"(?<![A-Za-z])(?:sin|cos|tan|log|ln|exp|sqrt|pi|and|or|max|min|mod)(?![A-Za-z])"
)
_FRAME = re.compile(r"\\(?:begin|end)\{\w+\}(?:\{[lcr|]*\})?|\\math(?:bb|cal) ?\{?[A-Z]\}?")
_BARE_WORDS = re.compile(r"(?<=\d)(?: ?([A-Za-z]{2,})((?: [A-Za-z]{2,})*)| ([mgshl]))$")
_DOTS = re.compile(r"\\[lc]?dots(?![A-Za-z])|\.\.\.|…")
_WORDS = re.compile(rf"(?:{_TEXT.pattern.replace('[^{}]*', '[^{}0-9]*')})(?:\^(?:\{{-?\d\}}|\d))?")
_CONJUNCTION = re.compile(r"\\(?:text|mbox)\{[ ,]*(?:and|or)[ ,]*\}")
_EQUALS = re.compile(r"(?<![<>!:=])==?(?!=)")
_APPROXIMATELY = re.compile(r"\\approx(?![A-Za-z])|≈")
_NO_NAME = re.compile(r"\d|[<>]|\\(?:l|g|n)eq?(?![A-Za-z])|\\approx|\b(?:or|not|no|wrong)\b")
_SUBSCRIPT = re.compile(r"[_^](?:\{[^{}]*\}|\w)|[A-Za-z]\([^()]*\)")
_OR = re.compile(r"\b(?:[oO][rR]|and)\b|\\(?:lor|vee|land|wedge|pm|mp)(?![A-Za-z])")
_SEVERAL = re.compile(r"\b(?:or|and)\b|[,;]|\\(?:lor|vee|land|wedge|pm|mp|cup|in)(?![A-Za-z])")
_BASE = re.compile(r"\d\}?_\{?(\d+)")


def doubt(gold: str, answer: str) -> str | None:
    r"""Return why an answer cannot be the true one, None if nothing speaks against it.

    Args:
        gold: The true answer, in its normal form.
        answer: The answer to judge, in its normal form.

    Returns:
        `"alternatives"` (`1 or 2`, `\pm 1` for one answer), `"base"`, `"units"` (kg for cm),
        `"numbers"` (others between words), `"rows"`, `"brackets"`, `"dots"`, `"digits apart"`,
        `"capitals"`, `"commands"` (TeX that the parser skips), `"marks"`, `"words"`, or
        `"variables"`.

    Example:
        >>> doubt("10_2", "10_3"), doubt("10_2", "10")
        ('base', None)
    """
    for reason, speaks_against in _DOUBTS.items():
        if speaks_against(gold, answer):
            return reason
    return None


def exact_part(gold: str, answer: str) -> str:
    r"""Return the answer without what it says to be approximately the same.

    The first value counts, so that `5 \approx 6` claims 5 and nothing else.

    Example:
        >>> exact_part("5", r"x \approx 5"), exact_part("5", r"5 \approx 6")
        ('5', '5')
    """
    if _APPROXIMATELY.search(gold):
        return answer
    parts = [part.strip() for part in _APPROXIMATELY.split(answer) if part.strip()] or [answer]
    while len(parts) > 1 and _is_name(parts[0], _names(gold)):
        parts.pop(0)
    return parts[0]


def chain(gold: str, answer: str) -> list[str]:
    r"""Return the values that an answer `a = b = c` claims; each must be the true answer.

    What stands before the first `=` is a name, and claims nothing, if it has a letter that the true
    answer has not, and no numbers. No chain, and no values: an answer without `=`, several
    equations, or one equation where the true answer is one too.

    Args:
        gold: The true answer, in its normal form.
        answer: The answer to judge, in its normal form.

    Example:
        >>> chain("6", "5=6"), chain("6", "x=2+4=6"), chain("6", "6"), chain("x=6", "x=6.0")
        (['5', '6'], ['2+4', '6'], [], [])
    """
    segments = [segment.strip() for segment in _EQUALS.split(answer)]
    has_several = _SEVERAL.search(answer) is not None
    if len(segments) < 2 or has_several or (len(segments) == 2 and _EQUALS.search(gold)):
        return []
    known = _names(_EQUALS.split(gold)[-1])
    while len(segments) > 1 and _is_name(segments[0], known):
        segments.pop(0)
    return segments


def _is_name(segment: str, known: set[str]) -> bool:
    """Whether it claims nothing: `x`, `a+b`, `f(2)`, but neither `6x` nor `-x`."""
    if _UNREAD.search(segment):
        return True
    bare = _SUBSCRIPT.sub("", segment)
    return bool(_names(segment) - known) and not (bare[:1] == "-" or _NO_NAME.search(bare))


def _names(form: str) -> set[str]:
    r"""Return words, Greek letters and variables, but for pi, which is a number.

    Remainders and determinants too: no parser at hand knows what `17 \bmod 5` is.
    """
    return {
        *_TEXT.findall(form),
        *_GREEK.findall(form),
        *_UNREAD.findall(form),
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
    """Whether both have words and the truth's are a unit. Words may be left out."""
    units, own = _units(gold), _units(answer)
    if not own and _TEXT.search(answer) is None:
        return False
    return bool(units) and (units != own or _unit_powers(gold) != _unit_powers(answer))


def _units(form: str) -> list[str]:
    bare = form.removeprefix(without_bare_units(form))
    names = re.findall(r"[A-Za-z]+", " ".join([*_TEXT.findall(form), bare]).lower())
    singular = (name if name in UNITS else name.removesuffix("s") for name in names)
    return [UNITS[name] for name in singular if name in UNITS]


def without_bare_units(form: str) -> str:
    """`10 cm` without its unit; `2ab` has none."""
    words = _BARE_WORDS.search(form)
    names = re.findall("[A-Za-z]+", words[0].lower()) if words else []
    is_unit = all(name in UNITS or name.removesuffix("s") in UNITS for name in names)
    return form[: words.start()] if words and is_unit else form


def _unit_powers(form: str) -> list[str]:
    words = re.findall("square|sq|cubic", form)
    return [power for _, power in _UNIT_POWER.findall(form)] + [
        "3" if word == "cubic" else "2" for word in words
    ]


def _has_other_numbers(gold: str, answer: str) -> bool:
    """Whether there are more or fewer numbers between words, or others between several nouns."""
    numbers, own = _numbers(gold), _numbers(answer)
    nouns = _CONJUNCTION.sub("", gold), _CONJUNCTION.sub("", answer)
    if all(map(_WORDS.search, nouns)) and len(numbers) > 1:
        return numbers != own
    has_words = any(map(_WORDS.search, (gold, answer)))
    return has_words and r"\pm" not in gold and len(numbers) != len(own)


def _numbers(form: str) -> list[str]:
    """Return what stands between words and commas, if it has a digit."""
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


def _has_strange_commands(gold: str, answer: str) -> bool:
    """Whether it has TeX that the parser does not know, and skips, or formulas of its own."""
    unknown = {match[1:] for match in _COMMAND.findall(answer)} - UNDERSTOOD
    return not unknown <= {match[1:] for match in _COMMAND.findall(gold)} or (
        _MATH_MODE.search(answer) is not None
    )


def _has_other_marks(gold: str, answer: str) -> bool:
    """Whether primes, ratios, bars with an index, or indices of numbers differ."""
    primes = [form.count("'") for form in (gold, answer)]
    ratios = [form.rpartition("=")[2].count(":") for form in (gold, answer)]
    differ = primes[0] != primes[1] or (max(ratios) > 1 and ratios[0] != ratios[1])
    return differ or re.search(r"\|[_^]|\d_\{?[^\d{]", answer) is not None


def _says_something_else(gold: str, answer: str) -> bool:
    """Whether words beside the formula have digits or quantities that the truth's have not."""
    said, true = (_said(form) for form in (answer, gold))
    return said != true


def _said(form: str) -> set[str]:
    words = " ".join(_TEXT.findall(form)).lower()
    digits = re.findall(r"\d+", words) if _TEXT.sub("", form).strip() else []
    return {*digits, *(QUANTITIES & set(re.findall("[a-z]+", words)))}


def _has_other_variables(gold: str, answer: str) -> bool:
    """Whether letters differ though no side is an equation or the like, which may name one.

    The parser takes letters at the end for units: to it `3t` is 3 and `2ab` is `2bc`.
    """
    if any(_RELATION.search(form) for form in (gold, answer)):
        return False
    names, own = (
        _variables(_FUNCTION.sub("", without_bare_units(_FRAME.sub("", form))))
        for form in (gold, answer)
    )
    return names - {"e", "i"} != own - {"e", "i"}


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
    "commands": _has_strange_commands,
    "marks": _has_other_marks,
    "words": _says_something_else,
    "variables": _has_other_variables,
}
