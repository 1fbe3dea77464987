"""What all graders have in common: a name, a version, remembered verdicts, many pairs at once."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, NamedTuple, cast

from .extraction import EXTRACTIONS, Extraction, extract_answer
from .normal_form import MAX_TRUTH_CHARS
from .processes import FAILURES, compare

Pair = tuple[str, str]  # true answer, answer to judge


class Verdict(NamedTuple):
    """The verdict of a grader on an answer. It is true if the answer is correct."""

    correct: bool
    """Whether the answer is the true one."""
    reason: str
    """What decided, such as `"numbers"`, `"gold refused: length"` or `"timeout"`."""

    @property
    def is_failure(self) -> bool:
        """Whether the comparison has no result, which counts as not correct."""
        return self.reason in FAILURES

    def __bool__(self) -> bool:
        return self.correct


@dataclass(eq=False)
class Grader:
    """How answers are read from completions and judged. Safe to use from any thread.

    Args:
        name: The name by which recipes and result files know it.
        version: It changes whenever a verdict may change, and stands in result files.
        extract_answer: Completion -> its final answer, or None.
        judge: True answer, answer -> verdict. Up to 65536 verdicts are remembered.
        uses_processes: Whether it compares answers in child processes.
        extraction: How [`~barl_trl.graders.extract_answer`] reads; None: it has a way of its own.
    """

    name: str
    version: str
    extract_answer: Callable[[str], str | None] = field(repr=False)
    judge: Callable[[str, str], Verdict] = field(repr=False)
    uses_processes: bool = field(default=False, repr=False)
    extraction: Extraction | None = None
    _verdicts: dict[Pair, Verdict] = field(default_factory=dict, init=False, repr=False)

    def __reduce__(self):
        return Grader, tuple(getattr(self, one.name) for one in fields(self) if one.init)

    @property
    def label(self) -> dict[str, str]:
        """Name, version and another extraction than the default, as they stand in result files."""
        other = {} if self.extraction in (None, "boxed") else {"extraction": self.extraction}
        return {"name": self.name, "version": self.version, **other}

    def with_extraction(self, extraction: Extraction) -> "Grader":
        """Return the grader that reads answers in another way, if it takes it (a ValueError)."""
        if extraction == (self.extraction or "boxed"):
            return self
        if self.extraction is None or extraction not in EXTRACTIONS:
            allowed = EXTRACTIONS if self.extraction else "'boxed', its own way,"
            raise ValueError(f"extraction must be {allowed} for {self.name}, got {extraction!r}.")
        reads = partial(extract_answer, extraction=extraction)
        return replace(self, extract_answer=reads, extraction=extraction)

    def start(self) -> None:
        """Start a process if the grader uses some: its RuntimeError comes before training then."""
        if self.uses_processes:
            compare.start()

    def verify(self, gold: str, answer: str) -> Verdict:
        """Return whether an answer is the true one, both bare."""
        pair = gold, answer
        if (verdict := self._verdicts.get(pair)) is None:
            verdict = self.judge(*pair)
            if verdict.reason != "left out":  # with more time it has a verdict
                self.remember({pair: verdict})
        return verdict

    def equivalent(self, gold: str, answer: str) -> bool:
        """Return whether an answer is the true one, without the reason."""
        return self.verify(gold, answer).correct

    def verify_all(self, pairs: Iterable[Pair]) -> dict[Pair, Verdict]:
        """Return the verdicts of many pairs, each judged once, in parallel."""
        found = {pair: self._verdicts.get(pair) for pair in pairs}
        if new := [pair for pair, verdict in found.items() if verdict is None]:
            with ThreadPoolExecutor(compare.size) as threads:
                found |= zip(new, threads.map(lambda pair: self.verify(*pair), new), strict=True)
        return cast(dict[Pair, Verdict], found)

    def grade(self, pairs: Iterable[tuple[str | None, str | None]]) -> list[Verdict | None]:
        """Return the verdict on each answer; None where the true answer is None."""
        listed: Any = [(truth, answer) for truth, answer in pairs]
        judged = self.verify_all(pair for pair in listed if None not in pair)
        none = Verdict(False, "no answer")
        return [None if pair[0] is None else judged.get(pair, none) for pair in listed]

    def remember(self, verdicts: Mapping[Pair, Verdict]) -> None:
        """Take over verdicts, such as another process's: two processes may differ in time-outs."""
        if len(self._verdicts) + len(verdicts) > 1 << 16:
            self._verdicts = {}
        for pair, verdict in verdicts.items():
            if max(map(len, pair)) <= MAX_TRUTH_CHARS:  # longer ones are refused at once
                self._verdicts[pair] = verdict
