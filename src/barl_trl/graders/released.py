r"""The string rule of the paper's released code: the last box, cleaned up, as an equal string.

It is here so that published numbers can be compared, not because it is a good grader: it misses
most equivalent pairs (`2.0` and `2`, `1,000` and `1000`), and accepts hedging (`1 \text{ or } 2`
for 1). The released verifier of a completion and a true answer is
`verify(extract_answer(truth), extract_answer(completion))`.

Written from the behaviour, oddities included. What differs on purpose:

- Extraction and comparison are two functions. Where the released code calls its verifier on an
  answer that it has extracted already (to look for the truth among the candidates), it extracts
  twice, which cuts a boxed `a####b` down to `b`.
- A fraction `a/b` of integers is rewritten whatever their length. The released code relies on
  `int`, which CPython limits to 4300 digits, and leaves longer ones alone.
"""

import re

from .verdict import Verdict

VERSION = "1"
"""Changes whenever a verdict may change."""

_BOX = r"\boxed{"
_BRACE = re.compile("[{}]")

# Each removal can uncover what a later one looks for, so the order is part of the rule.
_BEFORE_UNITS = (
    ("\n", ""),
    (r"\!", ""),
    (r"\\", "\\"),
    ("tfrac", "frac"),
    ("dfrac", "frac"),
    (r"\left", ""),
    (r"\right", ""),
    (r"^{\circ}", ""),
    (r"^\circ", ""),
    (r"\$", ""),
)
_UNITS = r"\text{ "
_BARE_POINT = re.compile(r"(?<![^ {])\.")  # at the start, or behind a space or an opening brace
_EQUATION = re.compile(r"[^=]{0,2}=([^=]*)")
_SQRT_OF_ONE = re.compile(r"\\sqrt(?!\\sqrt)([^{])")
# A fraction with fewer than two characters until the next one or the end: no room for arguments.
_FRAC_CUT_SHORT = re.compile(r"\\frac(?!\{).?(?=\\frac|\Z)", re.DOTALL)
_FRAC_BARE_BRACED = re.compile(r"\\frac([^{])(?=\{)")
_FRAC_BARE_BARE = re.compile(r"\\frac([^{])([^{])")
_INTEGER = "(0|-?[1-9][0-9]*)"
_INTEGER_RATIO = re.compile(f"{_INTEGER}/{_INTEGER}")


def extract_answer(text: str) -> str:
    r"""Return the inner string of the last `\boxed{…}`, or what stands in for it.

    The last `\boxed{` decides; escaped braces count as braces, and nothing is stripped. If there is
    none, or it is never closed, the answer is what follows the last `####` on its line, cleaned up;
    without `####` it is the whole text. Time is linear in the text.

    Args:
        text: A completion, or a cell with a true answer.

    Returns:
        The answer, which may be empty. There always is one, unlike with the other graders.

    Example:
        >>> extract_answer(r"So \boxed{1}, or \boxed{2}."), extract_answer("42")
        ('2', '42')
    """
    start = text.rfind(_BOX)
    if start >= 0:
        start += len(_BOX)
        depth = 1
        for brace in _BRACE.finditer(text, start):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                return text[start : brace.start()]
    # Split from the left: the tail of a longer row of hashes keeps what four do not use up.
    *before, tail = text.split("####")
    if not before:
        return text
    line = tail.strip().split("\n", 1)[0]
    return _normal_form(line.removeprefix(":").removesuffix(".").removesuffix("/"))


def verify(gold: str, answer: str) -> Verdict:
    r"""Return whether two answers have the same normal form; without content they have.

    Never raises. Time is linear in the strings.

    Args:
        gold: The true answer.
        answer: The answer to judge.

    Returns:
        The reason is `"equal strings"` or `"different strings"`.

    Example:
        >>> verify(r"\frac{1}{2}", "0.5").correct, verify(r"\frac{1}{4}", "0.25").correct
        (True, False)
    """
    correct = _normal_form(gold) == _normal_form(answer)
    return Verdict(correct, "equal strings" if correct else "different strings")


def _normal_form(answer: str) -> str:
    for old, new in _BEFORE_UNITS:
        answer = answer.replace(old, new)
    answer = answer.partition(_UNITS)[0]
    answer = answer.replace(r"\%", "").replace(r"\%", "")  # again, for what the first uncovered
    answer = _BARE_POINT.sub("0.", answer)
    if equation := _EQUATION.fullmatch(answer):
        answer = equation[1]
    # Roots come before spaces go: `\sqrt 2` is a root of the space, and not the same as `\sqrt2`.
    answer = _SQRT_OF_ONE.sub(r"\\sqrt{\1}", answer).replace(" ", "")
    answer = _with_braced_fractions(answer)
    if answer == "0.5":
        return r"\frac{1}{2}"
    if ratio := _INTEGER_RATIO.fullmatch(answer):
        return rf"\frac{{{ratio[1]}}}{{{ratio[2]}}}"
    return answer


def _with_braced_fractions(answer: str) -> str:
    if _FRAC_CUT_SHORT.search(answer):
        return answer  # one that cannot be read spares all the others
    answer = _FRAC_BARE_BRACED.sub(r"\\frac{\1}", answer)
    return _FRAC_BARE_BARE.sub(r"\\frac{\1}{\2}", answer)
