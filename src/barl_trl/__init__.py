"""Bayes-Adaptive RL for LLM Reasoning (BARL) as a TRL trainer.

cli           the `barl` command
commands      what parses options or prints: a module or folder for each command
evaluation    benchmarks, generation, response files, metrics
trainer       BARLConfig, BARLTrainer and its mixins: the only place that knows TRL's internals
data          rows -> prompts and true answers: loading, checks, selection, decontamination
rewards       outcome rewards in TRL's signature
hypotheses    the answers of a prompt's rollouts, and the true one -> its hypotheses
synthetic     tasks that are made: search problems, games of finding out, decision trees, triplets
graders       two answers -> a verdict: the front door, its processes, a folder per grader
plausibility  answer log-likelihoods of every hypothesis at every state, for any causal LM
report        figures and pages: files in, files out
credit        estimators: one scoring pass -> a value for every step, a file for each idea
posterior, steps   the paper's equations, and what spreads them over tokens; torch only

Imports go down this list (`[tool.importlinter]` in pyproject.toml). Where new things go: an
equation into a top module, an estimator into a file of `credit` and a line of its registry, what
calls a model to score into `plausibility`, what overrides TRL into a mixin in `trainer`, what
parses options or prints into `commands`, a grader into a folder and a line of its registry. Public
names are in `__init__.pyi`.
"""

import lazy_loader

__version__ = "0.1.0"

# Resolved on first use: the pure core must import neither trl nor transformers.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
