r"""The string rule of the paper's released code: the last box, cleaned up, as an equal string.

It misses most equivalent pairs (`2.0` and `2`), and accepts hedging (`1 \text{ or } 2` for 1).
Its oddities are kept, but for two: the released code may extract from what it has extracted, which
cuts a boxed `a####b` down to `b`, and its `a/b` may have no more than 4300 digits.
"""

import re
from itertools import accumulate

from .grader import Verdict

VERSION = "1"

_OPEN, _FRACTION = re.compile(r"\\frac([^{])(?=\{)"), re.compile(r"\\frac([^{])([^{])")
# Each removal can uncover what a later one looks for, so the order is part of the rule.
_RULES = (
    *((deleted, "") for deleted in (r"\n", r"\\!")),
    (r"\\\\", r"\\"),
    (r"d?tfrac|dfrac", "frac"),
    *((deleted, "") for deleted in (r"\\left", r"\\right", r"\^\{\\circ\}", r"\^\\circ", r"\\\$")),
    *((deleted, "") for deleted in (r"(?s)\\text\{ .*", r"\\%", r"\\%")),
    (r"(?<![^ {])\.", "0."),  # at the start, or behind a space or an opening brace
    (r"\A[^=]{0,2}=([^=]*)\Z", r"\1"),
    (r"\\sqrt(?!\\sqrt)([^{])", r"\\sqrt{\1}"),  # `\sqrt 2` is a root of the space, not `\sqrt2`
    (r" ", ""),
    # One without room for two arguments spares all the others.
    (
        r"(?s)\A(?!.*\\frac(?!\{).?(?:\\frac|\Z)).*\Z",
        lambda answer: _FRACTION.sub(r"\\frac{\1}{\2}", _OPEN.sub(r"\\frac{\1}", answer[0])),
    ),
    (r"\A0\.5\Z", r"\\frac{1}{2}"),
    (r"\A(0|-?[1-9][0-9]*)/(0|-?[1-9][0-9]*)\Z", r"\\frac{\1}{\2}"),
)


def extract_answer(text: str) -> str:
    r"""Return what the last `\boxed{…}` holds, else the line after the last `####`, else all."""
    _, marker, box = text.rpartition(r"\boxed{")
    depths = list(accumulate((character == "{") - (character == "}") for character in box))
    if marker and -1 in depths:
        return box[: depths.index(-1)]
    # Split from the left: the tail of a longer row of hashes keeps what four do not use up.
    *before, tail = text.split("####")
    line = tail.strip().split("\n", 1)[0].removeprefix(":").removesuffix(".").removesuffix("/")
    return _normal_form(line) if before else text


def verify(gold: str, answer: str) -> Verdict:
    """Return whether two answers have the same normal form; answers without content have."""
    correct = _normal_form(gold) == _normal_form(answer)
    return Verdict(correct, "equal strings" if correct else "different strings")


def _normal_form(answer: str) -> str:
    for pattern, replacement in _RULES:
        answer = re.sub(pattern, replacement, answer)
    return answer
