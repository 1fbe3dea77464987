"""Graders: how the final answer is found in a completion, and whether it is the true one.

A grader takes strings and returns a verdict. [`extract_answer`] and [`verify`] belong to the
default grader. [`get_grader`] returns the others by name.
"""

from . import default, qwen, released
from .extraction import Extraction, extract_answer
from .grader import Grader, Verdict

__all__ = ["GRADERS", "Grader", "Verdict", "extract_answer", "get_grader", "verify"]

GRADERS = {
    grader.name: grader
    for grader in (
        Grader("math_verify", default.VERSION, extract_answer, default.verify, True, "boxed"),
        Grader("qwen", qwen.VERSION, qwen.extract_answer, qwen.verify, True),
        Grader("string", released.VERSION, released.extract_answer, released.verify),
    )
}
"""The graders by name: `math_verify`, the default; `qwen`, with the conventions of the Qwen2.5-Math
evaluation; `string`, with the rule of the paper's released code.
"""

verify = GRADERS["math_verify"].verify
"""[`Grader.verify`] of the default grader: true answer, answer to judge -> [`Verdict`]."""


def get_grader(name: str, extraction: Extraction = "boxed") -> Grader:
    """Return one of [`GRADERS`], or raise a ValueError; `math_verify` alone takes extractions."""
    if name not in GRADERS:
        raise ValueError(f"grader must be one of {', '.join(GRADERS)}, got {name!r}.")
    return GRADERS[name].with_extraction(extraction)
