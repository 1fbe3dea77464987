"""From answers to hypotheses: the true answer of a row, equivalence, a group's hypothesis set.

Nothing here may stop or hang training, whatever a policy writes.
"""

from ..graders import extract_answer
from .answers import (
    answers_equivalent,
    is_truth,
    no_answer_advice,
    plain_text,
    truth_answer,
    why_inadmissible,
)
from .given import GivenHypotheses, given_hypotheses, given_metrics
from .sets import DROP_REASONS, HypothesisSet, hypothesis_metrics, merge_hypotheses

__all__ = [
    "DROP_REASONS",
    "GivenHypotheses",
    "HypothesisSet",
    "answers_equivalent",
    "extract_answer",
    "given_hypotheses",
    "given_metrics",
    "hypothesis_metrics",
    "is_truth",
    "merge_hypotheses",
    "no_answer_advice",
    "plain_text",
    "truth_answer",
    "why_inadmissible",
]
