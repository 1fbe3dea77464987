"""`BaselineTrainer`: what [`BARLTrainer`] adds to TRL's trainer apart from its weights."""

import os
from collections.abc import Hashable, Mapping
from typing import Any

from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from trl import GRPOTrainer

from ..rewards import AccuracyReward, accuracy_reward, resolve_rewards
from .barl_config import BARLConfig
from .benchmark_evaluation import BenchmarkEvaluationMixin, check_benchmarks
from .checkpoints.exact_resume import ExactResumeMixin
from .checkpoints.output_folder import claimed, refuse_clearing
from .checkpoints.stop_together import StopTogether
from .checks.datasets import refuse_unusable_tokenizer
from .hub.pushes import HubMixin
from .logging.health import HealthCallback, HealthMixin, logger
from .rollouts.turns import tell_ends


class BaselineTrainer(
    HealthMixin, HubMixin, BenchmarkEvaluationMixin, ExactResumeMixin, GRPOTrainer
):
    """[`~trl.GRPOTrainer`] with exact resuming, benchmarks, model cards and health lines.

    It trains the GRPO baselines; [`BARLTrainer`] adds the weights of steps.

    Args:
        model, reward_funcs, args, train_dataset, **kwargs: As in [`~trl.GRPOTrainer`], with a
            [`BARLConfig`]. Its `extraction` says what graders read.
        benchmarks: Problems by the benchmark's name, with the columns `prompt` and `solution`.
            Judged by the first of `reward_funcs` that has a grader, else by the default one. No
            `eval_dataset` is needed then.

    Raises:
        ValueError: A benchmark has no problems, or lacks a column; or there are tools; the folder
            is used; the tokenizer lacks a chat template or what ends a turn.
        RuntimeError: A grader's process cannot be started. Before the model is loaded.
    """

    args: BARLConfig
    model: Any
    processing_class: PreTrainedTokenizerBase

    def __init__(
        self,
        model,
        reward_funcs,
        args: BARLConfig,
        train_dataset,
        *,
        benchmarks: Mapping[str, Dataset] | None = None,
        **kwargs,
    ):
        self._said: set[Hashable] = set()
        self.benchmarks = dict(benchmarks or {})
        check_benchmarks(self.benchmarks, kwargs)
        if self.benchmarks and kwargs.get("eval_dataset") is None:
            kwargs["eval_dataset"] = {}  # `Trainer` wants one where it evaluates
        length: Any = args.max_completion_length
        reward_funcs = resolve_rewards(reward_funcs, args.extraction, max_completion_length=length)
        functions = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
        self._accuracy_rewards = [func for func in functions if isinstance(func, AccuracyReward)]
        default = resolve_rewards(accuracy_reward, args.extraction)
        self._judge = (self._accuracy_rewards or [default])[0]
        for judge in [*self._accuracy_rewards, *([self._judge] if self.benchmarks else [])]:
            judge.grader.start()
        refuse_clearing(model, args)
        model = os.fspath(model) if isinstance(model, os.PathLike) else model
        with claimed(args, is_own=True):  # before a model is loaded
            super().__init__(model, reward_funcs, args, train_dataset, **kwargs)
        refuse_unusable_tokenizer(self._tokenizer, self.train_dataset)
        if not self._is_vlm:
            tell_ends(self)
        self.check_length(args.max_completion_length)
        self.stop_together = StopTogether(self.accelerator)
        self.add_callback(self.stop_together)
        self.add_callback(HealthCallback(self))

    def _say_once(self, about: Hashable, text: str | None) -> None:
        """Warn of something, the first time that there is a text about it."""
        if text and about not in self._said and self.accelerator.is_main_process:
            self._said.add(about)
            logger.warning(text)
