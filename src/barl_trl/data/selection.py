"""Rows that are left out of training on request: duplicates and evaluation problems."""

from collections.abc import Collection, Mapping, Sequence

from .decontamination import EvaluationProblems
from .suspicions import problem_key


def select(
    problems: Sequence[str],
    *,
    deduplicate: bool,
    evaluation_sets: Mapping[str, Sequence[str]],
    decontaminate: Collection[str],
) -> tuple[list[str | None], list[str | None]]:
    """Return why each row is left out, and which evaluation sets it is in; None for neither.

    Rows with an empty problem are not looked at. See
    [`load_problems`][barl_trl.data.load_problems] for the options.
    """
    if unknown := set(decontaminate) - set(evaluation_sets):
        raise ValueError(
            f"decontaminate must name evaluation_sets, got {sorted(unknown)} with "
            f"{list(evaluation_sets)}: add their problems."
        )
    held_out = EvaluationProblems(evaluation_sets)
    reasons: list[str | None] = [None] * len(problems)
    found_in: list[str | None] = [None] * len(problems)
    seen = set()
    for place, problem in enumerate(problems):
        if not problem:
            continue
        sets = held_out.sets_with(problem)
        found_in[place] = "+".join(sets) or None
        if set(sets) & set(decontaminate):
            reasons[place] = f"in {found_in[place]}"
        elif deduplicate:
            key = problem_key(problem)
            reasons[place] = "duplicate" if key in seen else None
            seen.add(key)
    return reasons, found_in
