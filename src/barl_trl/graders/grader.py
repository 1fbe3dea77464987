"""What all graders have in common: a name, a version, remembered verdicts, many pairs at once."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import starmap
from typing import Any

from .extraction import EXTRACTIONS, Extraction, extract_answer
from .limits import MAX_TRUTH_CHARS
from .processes import compare
from .verdict import Verdict

Pair = tuple[str, str]
"""True answer, answer to judge."""

_REMEMBERED = 1 << 16


def whole(pairs: Iterable[tuple[str | None, str | None]]) -> list[Pair]:
    """Return the pairs that have both a true answer and one to judge."""
    return [(truth, answer) for truth, answer in pairs if truth is not None and answer is not None]


def _texts(gold: str, answer: str) -> Pair:
    for name, value in (("gold", gold), ("answer", answer)):
        if not isinstance(value, str):
            raise TypeError(
                f"{name} must be a text, got {value!r}: str() makes one of a number, and `grade` "
                "takes None where there is none."
            )
    return gold, answer


@dataclass(eq=False)
class Grader:
    """How answers are read from completions and judged. Safe to use from any thread."""

    name: str
    """The name by which recipes and result files know it."""
    version: str
    """Changes whenever a verdict may change; stands in result files beside the name."""
    extract_answer: Callable[[str], str | None] = field(repr=False)
    """Completion -> its final answer, or None."""
    judge: Callable[[str, str], Verdict] = field(repr=False)
    """True answer, answer -> verdict. The latest 65536 verdicts are remembered."""
    uses_processes: bool = field(default=False, repr=False)
    """Whether it compares in processes, which [`start`] then tries."""
    extraction: Extraction | None = None
    """How [`~barl_trl.graders.extract_answer`] reads, if it is what reads."""

    def __post_init__(self):
        self._lock = threading.Lock()
        self._verdicts: OrderedDict[Pair, Verdict] = OrderedDict()

    def __reduce__(self):
        return Grader, tuple(getattr(self, one.name) for one in fields(self))

    @property
    def label(self) -> dict[str, str]:
        """Name, version and another extraction than the default, as they stand in result files."""
        other = {} if self.extraction in (None, "boxed") else {"extraction": self.extraction}
        return {"name": self.name, "version": self.version, **other}

    def with_extraction(self, extraction: Extraction) -> "Grader":
        """Return the grader that reads answers in another way.

        Raises:
            ValueError: There is no such way, or the grader has its own.
        """
        if extraction not in EXTRACTIONS:
            raise ValueError(
                f"extraction must be one of {list(EXTRACTIONS)}, got {extraction!r}: the default "
                "is 'boxed'."
            )
        if extraction == (self.extraction or "boxed"):
            return self
        if self.extraction is None:
            raise ValueError(
                f"extraction must be left at 'boxed' with the grader {self.name}, got "
                f"{extraction!r}: it reads answers in its own way. math_verify takes it."
            )
        reads = partial(extract_answer, extraction=extraction)
        return replace(self, extract_answer=reads, extraction=extraction)

    def start(self) -> None:
        """Start a process that compares, if it uses them: before training, not in the first batch.

        Raises:
            RuntimeError: If none can be started.
        """
        if self.uses_processes:
            compare.start()

    def verify(self, gold: str, answer: str) -> Verdict:
        """Return whether an answer is the true one.

        Args:
            gold: The true answer, bare.
            answer: The answer to judge, bare.

        Raises:
            RuntimeError: If the grader's processes cannot be started at all.
            TypeError: If one of them is no text.
        """
        pair = _texts(gold, answer)
        verdict = self._verdicts.get(pair)
        if verdict is None:
            verdict = self.judge(*pair)
            self.remember({pair: verdict})
        return verdict

    def equivalent(self, gold: str, answer: str) -> bool:
        """Return the verdict alone."""
        return self.verify(gold, answer).correct

    def verify_all(self, pairs: Iterable[Pair]) -> dict[Pair, Verdict]:
        """Return the verdicts of many pairs, judged in parallel.

        Args:
            pairs: True answers with the answers to judge; each pair is judged once.
        """
        distinct = dict.fromkeys(starmap(_texts, pairs))
        with ThreadPoolExecutor(compare.size) as threads:
            verdicts = threads.map(lambda pair: self.verify(*pair), distinct)
            return dict(zip(distinct, verdicts, strict=True))

    def grade(self, pairs: Iterable[tuple[str | None, str | None]]) -> list[Verdict | None]:
        """Return the verdict on each answer; a missing one is not correct.

        Args:
            pairs: True answers with the answers to judge. Without a true answer (None) there is no
                verdict; without an answer it is "no answer".
        """
        pairs = list(pairs)
        judged: dict[Any, Verdict] = {**self.verify_all(whole(pairs))}
        none = Verdict(False, "no answer")
        return [
            None if truth is None else judged.get((truth, answer), none) for truth, answer in pairs
        ]

    def remember(self, verdicts: Mapping[Pair, Verdict]) -> None:
        """Take over verdicts, such as another process's: a time-out may differ between two."""
        with self._lock:
            for pair, verdict in verdicts.items():
                if max(map(len, pair)) <= MAX_TRUTH_CHARS:  # longer ones are refused at once
                    self._verdicts[pair] = verdict
            while len(self._verdicts) > _REMEMBERED:
                self._verdicts.popitem(last=False)
