"""Rows that are left out of training on request: duplicates and evaluation problems."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from .decontamination import EvaluationProblems
from .suspicions import problem_key


@dataclass(frozen=True)
class Selection:
    """Which rows to leave out of those that could be trained on; by default, none.

    Attributes:
        deduplicate: Leave out rows whose problem an earlier row has, whatever their answer.
        evaluation_sets: Evaluation problems by the name of their set. Rows that have one of these
            problems are counted.
        decontaminate: Names of the evaluation sets whose problems are left out.

    Raises:
        ValueError: If `decontaminate` names no evaluation set.
    """

    deduplicate: bool = False
    evaluation_sets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    decontaminate: Collection[str] = ()

    def __post_init__(self):
        if unknown := set(self.decontaminate) - set(self.evaluation_sets):
            raise ValueError(
                f"decontaminate must name evaluation_sets, got {sorted(unknown)} with "
                f"{list(self.evaluation_sets)}: add their problems."
            )

    def apply(self, problems: Sequence[str]) -> tuple[list[str | None], list[str | None]]:
        """Return why each row is left out, and which evaluation sets it is in; None for neither.

        Args:
            problems: Problem of each row; empty for a row that is not to be looked at.
        """
        held_out = EvaluationProblems(self.evaluation_sets)
        reasons: list[str | None] = [None] * len(problems)
        found_in: list[str | None] = [None] * len(problems)
        seen = set()
        for place, problem in enumerate(problems):
            if not problem:
                continue
            sets = held_out.sets_with(problem)
            found_in[place] = "+".join(sets) or None
            if set(sets) & set(self.decontaminate):
                reasons[place] = f"in {found_in[place]}"
            elif self.deduplicate:
                key = problem_key(problem)
                reasons[place] = "duplicate" if key in seen else None
                seen.add(key)
        return reasons, found_in
