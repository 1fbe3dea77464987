"""Pass@k, and the tokens that k responses cost."""

from statistics import fmean
from typing import NamedTuple

from ..responses import ResponsesByProblem
from .metrics import mean_and_standard_error, pass_at_k


class _EfficiencyPoint(NamedTuple):
    """Pass@k and the total tokens of k responses, as means over problems.

    The standard error is that of the accuracy; it is None for a single problem.
    """

    k: int
    accuracy: float
    standard_error: float | None
    tokens: float


def efficiency_curve(
    sampled: ResponsesByProblem, greedy: ResponsesByProblem | None = None, *, max_k: int = 6
) -> list[_EfficiencyPoint]:
    """Compute pass@k and tokens for k = 1 … `max_k` (the paper's figures on token efficiency).

    The k responses are drawn from a problem's samples. With `greedy` (the paper's main text), they
    are the greedy response and k - 1 samples; k = 1 is then greedy decoding. Accuracy and tokens
    are expectations over the draw. They are exact: no draw is made.

    Args:
        sampled: Sampled responses to each problem.
        greedy: The greedy response to each problem. None: all k responses are sampled.
        max_k: Largest k.

    Raises:
        ValueError: A problem has too few samples, or not the one greedy response.
    """
    fewest = min(map(len, sampled.values()))
    most = fewest if greedy is None else fewest + 1
    if not 1 <= max_k <= most:
        raise ValueError(
            f"max_k must be in [1, {most}], got {max_k}: a problem has {fewest} samples"
            f"{' and a greedy response' if greedy else ''}."
        )
    if greedy is not None and (
        greedy.keys() != sampled.keys() or any(len(responses) != 1 for responses in greedy.values())
    ):
        raise ValueError(
            f"greedy must hold one response to each of the {len(sampled)} sampled problems, got "
            f"{sum(map(len, greedy.values()))} to {len(greedy)}: evaluate both on the same ones."
        )
    return [_point(sampled, greedy or {}, k) for k in range(1, max_k + 1)]


def _point(sampled: ResponsesByProblem, greedy: ResponsesByProblem, k: int) -> _EfficiencyPoint:
    accuracies, tokens = [], []
    for problem_id, samples in sampled.items():
        first = greedy.get(problem_id, [])
        drawn = k - len(first)
        solved = any(response.reward for response in first)
        num_correct = sum(sample.reward == 1 for sample in samples)
        accuracies.append(1.0 if solved else pass_at_k(len(samples), num_correct, drawn))
        mean_tokens = fmean(sample.tokens for sample in samples)
        tokens.append(sum(response.tokens for response in first) + drawn * mean_tokens)
    return _EfficiencyPoint(k, *mean_and_standard_error(accuracies), fmean(tokens))
