"""Bayes-Adaptive RL for LLM Reasoning (BARL) as a TRL trainer.

commands      the `barl` command: what parses options or prints, a module for each command
evaluation    benchmarks, generation, response files, accuracy with intervals, comparisons
inspector     records of rollouts in, the page of `barl inspect` out
trainer       BARLConfig, BARLTrainer: rollouts -> weights; what knows TRL's internals
data          rows -> prompts and true answers: loading, checks, selection, decontamination
rewards       outcome rewards in TRL's signature
rows          files of any kind -> rows as they stand; the way into a cell, options, messages
hypotheses    the answers of a prompt's rollouts, and the true one -> its hypotheses
synthetic     tasks that are made, with tiny models: search problems, the game of numbers
graders       two answers -> a verdict, in processes that can be killed; a file per grader
plausibility  answer log-likelihoods of every hypothesis at every state, for any causal LM
credit        estimators: one scoring pass -> a value for every step -> the weights of tokens
posterior, steps   the paper's equations, and what spreads them over tokens; torch only

Imports go down this list (`[tool.importlinter]` in pyproject.toml); CONTRIBUTING.md says where new
things go. Public names are in `__init__.pyi`.
"""

import lazy_loader

__version__ = "0.1.0"

# Resolved on first use: the pure core must import neither trl nor transformers.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
