"""Accuracy and tokens of the arms that are compared, by training seed, problem and k."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..responses import ResponsesByProblem
from .metrics import pass_at_k


class ArmValues(NamedTuple):
    """An arm's accuracy and tokens on a benchmark: S training seeds, N problems, k = 1 … K.

    Attributes:
        passed: Pass@k, (S, N, K).
        tokens: Expected total tokens of k responses, (S, N, K).
    """

    passed: np.ndarray
    tokens: np.ndarray


def arms_of(
    benchmark: str, runs_by_arm: Mapping[str, Sequence[Mapping[str, ResponsesByProblem]]]
) -> dict[str, ArmValues]:
    """Return the accuracy and tokens of each arm on the problems of a benchmark.

    K is the smallest number of responses to a problem in any run.

    Args:
        benchmark: Name of the benchmark.
        runs_by_arm: Arm -> its runs, one per training seed; a run is its responses by benchmark.

    Raises:
        ValueError: The runs did not answer the same problems, or those of an arm drew their tokens
            differently.
    """
    runs = [(name, run.get(benchmark, {})) for name, runs in runs_by_arm.items() for run in runs]
    _, first = runs[0]
    problems = {number: responses[0].problem for number, responses in first.items()}
    for name, run in runs:
        if {number: responses[0].problem for number, responses in run.items()} != problems:
            raise ValueError(
                f"all runs must have answered the same problems, got {len(run)} of {benchmark} in "
                f"a run of {name}, and {len(problems)}, or others, in the first: evaluate them "
                "with the same --benchmarks and --limit."
            )
    for name, arm_runs in runs_by_arm.items():
        _refuse_other_drawing(name, [run[benchmark] for run in arm_runs])
    most = min(len(responses) for _, run in runs for responses in run.values())
    values_of: dict[str, list[ArmValues]] = {name: [] for name in runs_by_arm}
    for name, run in runs:
        ks = range(1, most + 1)
        counts = [(len(r), sum(one.reward == 1 for one in r)) for r in run.values()]
        passed = [[pass_at_k(*count, k) for k in ks] for count in counts]
        tokens = [np.mean([one.tokens for one in r]) * np.array(ks) for r in run.values()]
        values_of[name].append(ArmValues(np.array(passed), np.array(tokens)))
    return {
        name: ArmValues(*map(np.stack, zip(*seeds, strict=True)))
        for name, seeds in values_of.items()
    }


def _refuse_other_drawing(name: str, runs: Sequence[ResponsesByProblem]) -> None:
    drawings = [one.drawing for run in runs for responses in run.values() for one in responses]
    noted = [drawing for drawing in drawings if drawing is not None]  # older files do not say
    for drawing in noted:
        if drawing != noted[0]:
            raise ValueError(
                f"an arm's runs must have drawn tokens alike, got {noted[0]} and {drawing} in "
                f"{name}: name them as two arms."
            )
