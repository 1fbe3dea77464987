"""Rows that are left out of training on request: by level, duplicates, evaluation problems."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .decontamination import EvaluationProblems
from .suspicions import problem_key

if TYPE_CHECKING:
    from datasets import Dataset

SOLVE_RATE_COLUMN = "llama8b_solve_rate"
"""Big-Math's column of the share of a Llama-3.1-8B's rollouts that solve the problem."""


@dataclass(frozen=True)
class Selection:
    """Which rows to leave out of those that could be trained on; by default, none.

    Attributes:
        deduplicate: Leave out rows whose problem an earlier row has, whatever their answer.
        min_solve_rate: Leave out rows with a lower solve rate or none; in [0, 1].
        max_solve_rate: Leave out rows with a higher solve rate or none; in [0, 1].
        evaluation_sets: Evaluation problems by the name of their set. Rows that have one of these
            problems are counted.
        decontaminate: Names of the evaluation sets whose problems are left out.

    Raises:
        ValueError: If the rates are no range within [0, 1], or `decontaminate` names no evaluation
            set.
    """

    deduplicate: bool = False
    min_solve_rate: float | None = None
    max_solve_rate: float | None = None
    evaluation_sets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    decontaminate: Collection[str] = ()

    def __post_init__(self):
        low, high = self._solve_rates()
        if not 0 <= low <= high <= 1:
            raise ValueError(
                "min_solve_rate and max_solve_rate must be a range within [0, 1], got "
                f"{self.min_solve_rate} and {self.max_solve_rate}: they are shares."
            )
        if unknown := set(self.decontaminate) - set(self.evaluation_sets):
            raise ValueError(
                f"decontaminate must name evaluation_sets, got {sorted(unknown)} with "
                f"{list(self.evaluation_sets)}: add their problems."
            )

    def _solve_rates(self) -> tuple[float, float]:
        low, high = self.min_solve_rate, self.max_solve_rate
        return (0.0 if low is None else low), (1.0 if high is None else high)

    def apply(
        self, problems: Sequence[str], rows: "Dataset"
    ) -> tuple[list[str | None], list[str | None]]:
        """Return why each row is left out, and which evaluation sets it is in; None for neither.

        Args:
            problems: Problem of each row; empty for a row that is not to be looked at.
            rows: The rows, for their solve rates.

        Raises:
            ValueError: If rates are asked for, and there is no column `SOLVE_RATE_COLUMN`.
        """
        held_out = EvaluationProblems(self.evaluation_sets)
        reasons = self._levels(rows)
        found_in: list[str | None] = [None] * len(problems)
        seen = set()
        for place, problem in enumerate(problems):
            if not problem:
                reasons[place] = None
                continue
            sets = held_out.sets_with(problem)
            found_in[place] = "+".join(sets) or None
            if reasons[place] is None and set(sets) & set(self.decontaminate):
                reasons[place] = f"in {found_in[place]}"
            if reasons[place] is None and self.deduplicate:
                key = problem_key(problem)
                reasons[place] = "duplicate" if key in seen else None
                seen.add(key)
        return reasons, found_in

    def _levels(self, rows: "Dataset") -> list[str | None]:
        """Return why each row is left out for its solve rate, None if it is kept."""
        if self.min_solve_rate is None and self.max_solve_rate is None:
            return [None] * len(rows)
        column = {name.lower(): name for name in rows.column_names}.get(SOLVE_RATE_COLUMN)
        if column is None:
            raise ValueError(
                "min_solve_rate and max_solve_rate must be left out without the column "
                f"{SOLVE_RATE_COLUMN}, got {self.min_solve_rate} and {self.max_solve_rate} with "
                f"columns {', '.join(rows.column_names)}: rename the column that has the rate."
            )
        return [self._level(rate) for rate in rows[column]]

    def _level(self, rate: float | str | None) -> str | None:
        try:
            share = math.nan if rate is None else float(rate)
        except ValueError:
            share = math.nan
        if math.isnan(share):
            return "no_solve_rate"
        low, high = self._solve_rates()
        return "too_hard" if share < low else "too_easy" if share > high else None
