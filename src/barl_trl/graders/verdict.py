"""What a grader says of an answer."""

from typing import NamedTuple


class Verdict(NamedTuple):
    """Whether an answer is the true one, and how that was decided. It is true if correct."""

    correct: bool
    """Whether it is the true answer."""
    reason: str
    """Some words, such as `"equal numbers"`, `"gold refused: length"` or `"timeout"`."""

    @property
    def is_failure(self) -> bool:
        """Whether the comparison timed out or crashed, which counts as not correct."""
        return self.reason in ("timeout", "crash")

    def __bool__(self) -> bool:
        return self.correct
