"""Graders: how the final answer is found in a completion, and whether it is the true one.

Strings in, a verdict out. [`extract_answer`] and [`verify`] are the default grader's. Get the
others by name with [`get_grader`].
"""

import difflib

from . import released
from .default import verify as default
from .extraction import Extraction, extract_answer
from .grader import Grader
from .qwen import verify as qwen
from .verdict import Verdict

__all__ = ["GRADERS", "Grader", "Verdict", "extract_answer", "get_grader", "verify"]

GRADERS = {
    grader.name: grader
    for grader in (
        Grader("math_verify", default.VERSION, extract_answer, default.verify, True, "boxed"),
        Grader("qwen", qwen.VERSION, qwen.extract_answer, qwen.verify, True),
        Grader("string", released.VERSION, released.extract_answer, released.verify),
    )
}
"""`math_verify`: the default. `qwen`: the conventions of the Qwen2.5-Math evaluation. `string`: the
string rule of the paper's released code."""


def get_grader(name: str, extraction: Extraction = "boxed") -> Grader:
    """Return the grader with a name.

    Args:
        name: One of [`GRADERS`].
        extraction: What it reads as an answer (see [`extract_answer`]); only `math_verify` takes
            another than `"boxed"`.

    Raises:
        ValueError: If there is none of that name, or it does not take that extraction.
    """
    if name in GRADERS:
        return GRADERS[name].with_extraction(extraction)
    nearest = difflib.get_close_matches(name, GRADERS, n=1) or ["math_verify"]
    raise ValueError(
        f"grader must be one of {', '.join(GRADERS)}, got {name!r}: did you mean {nearest[0]!r}?"
    )


verify = GRADERS["math_verify"].verify
"""The default grader's [`Grader.verify`]: true answer, other answer -> [`Verdict`]."""
