"""Bayes-Adaptive RL for LLM Reasoning (BARL) as a TRL trainer.

cli           the `barl` command
commands      what parses options or prints: a module for each command
evaluation    benchmarks, generation, response files, metrics
trainer       BARLConfig, BARLTrainer and its mixins: the only place that knows TRL's internals
data          rows -> prompts and true answers: loading, checks, selection, decontamination
rewards       outcome rewards in TRL's signature
hypotheses    the answers of a prompt's rollouts, and the true one -> its hypotheses
synthetic     tasks that are made: search problems, decision trees, triplets
graders       two answers -> a verdict: the front door, its processes, a folder per grader
plausibility  answer log-likelihoods of every hypothesis at every state, for any causal LM
report        figures and pages: files in, files out
credit        estimators: one scoring pass -> a value for every step, a file for each idea
posterior, steps, whitening   the paper's equations, and what spreads them over tokens; torch only

Imports go down this list (`[tool.importlinter]` in pyproject.toml). Where new things go: an
equation into a top module, an
estimator into a file of `credit` and a line of its registry, what calls a model to score into
`plausibility`, what overrides TRL into a mixin in `trainer`, what parses options or prints into
`commands`, a grader into a folder and a line of its registry.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .hypotheses import answers_equivalent as answers_equivalent
    from .hypotheses import extract_answer as extract_answer
    from .plausibility import Answer as Answer
    from .plausibility import Rollout as Rollout
    from .plausibility import answer_log_likelihoods as answer_log_likelihoods
    from .posterior import discrepancy as discrepancy
    from .posterior import posterior_weighted_values as posterior_weighted_values
    from .posterior import progress_rewards as progress_rewards
    from .posterior import q_values as q_values
    from .trainer import BARLConfig as BARLConfig
    from .trainer import BARLTrainer as BARLTrainer

# Resolved on first use: the pure core must import neither trl nor transformers. `posterior` is the
# module here; its function of that name stays inside it.
_MODULES = {
    "BARLConfig": "trainer",
    "BARLTrainer": "trainer",
    "Answer": "plausibility",
    "Rollout": "plausibility",
    "answer_log_likelihoods": "plausibility",
    "answers_equivalent": "hypotheses",
    "extract_answer": "hypotheses",
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
