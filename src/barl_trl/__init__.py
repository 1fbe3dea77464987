"""Bayes-Adaptive RL for LLM Reasoning (BARL) as a TRL trainer."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .answers import answers_equivalent as answers_equivalent
    from .answers import extract_answer as extract_answer
    from .config import BARLConfig as BARLConfig
    from .plausibility import answer_log_likelihoods as answer_log_likelihoods
    from .posterior import discrepancy as discrepancy
    from .posterior import posterior_weighted_values as posterior_weighted_values
    from .posterior import progress_rewards as progress_rewards
    from .posterior import q_values as q_values
    from .rollouts import Answer as Answer
    from .rollouts import Rollout as Rollout
    from .trainer import BARLTrainer as BARLTrainer

# Resolved on first use: the pure core must import neither trl nor transformers. `posterior` is the
# module here; its function of that name stays inside it.
_MODULES = {
    "BARLConfig": "config",
    "BARLTrainer": "trainer",
    "Answer": "rollouts",
    "Rollout": "rollouts",
    "answer_log_likelihoods": "plausibility",
    "answers_equivalent": "answers",
    "extract_answer": "answers",
    "discrepancy": "posterior",
    "posterior_weighted_values": "posterior",
    "progress_rewards": "posterior",
    "q_values": "posterior",
}
__all__ = sorted(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
