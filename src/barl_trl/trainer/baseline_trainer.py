"""`BaselineTrainer`: what [`BARLTrainer`] adds to TRL's trainer, except for its token weights."""

import os
from collections.abc import Hashable, Mapping
from typing import Any

from accelerate.utils import send_to_device
from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from trl import GRPOTrainer

from ..rewards import AccuracyReward, accuracy_reward, resolve_rewards
from .benchmark_evaluation import BenchmarkEvaluationMixin, check_benchmarks
from .checkpoints.exact_resume import ExactResumeMixin
from .checkpoints.output_folder import claimed, refuse_clearing
from .checkpoints.stop_together import StopTogether
from .checks import refuse_unusable_tokenizer
from .config import BARLConfig
from .hub.pushes import HubMixin
from .logging.health import HealthCallback, HealthMixin, logger
from .rollouts.turns import tell_ends


class Rows(list[dict[str, Any]]):
    """The rows of a batch, which go to the device as they are if they have no tensors.

    accelerate would look at every text of every list in them: with a thousand hypotheses in each
    row this takes longer than the belief over them.
    """

    def to(self, device: Any, **kwargs: Any) -> "Rows":
        """Return the rows with their tensors on a device."""
        has_tensors = any(hasattr(cell, "to") for row in self for cell in row.values())
        return Rows(send_to_device([*self], device, **kwargs)) if has_tensors else self


class BaselineTrainer(
    HealthMixin, HubMixin, BenchmarkEvaluationMixin, ExactResumeMixin, GRPOTrainer
):
    """[`~trl.GRPOTrainer`] with exact resuming, benchmarks, model cards and health lines.

    It trains the GRPO baselines; [`BARLTrainer`] adds the weights of reasoning steps.

    What it relies on in TRL: `data_collator` gets the list of a batch's rows, and returns it as the
    trainer takes it; accelerate's loader calls `to` of a batch that has it.

    Args:
        model, reward_funcs, args, train_dataset, **kwargs: What [`~trl.GRPOTrainer`] takes. `args`
            must be a [`BARLConfig`], whose `extraction` says which text graders read as the answer.
        benchmarks: Benchmark name -> its problems, with the columns `prompt` and `solution`. The
            first of `reward_funcs` that has a grader judges them, else the default grader. With
            benchmarks, evaluation needs no `eval_dataset`.

    Raises:
        ValueError: A benchmark has no problems or lacks a column; an earlier run has left something
            in `output_dir`, or another run writes into it; or the tokenizer lacks a chat template
            or a token that ends a turn.
        RuntimeError: A grader's process cannot be started. This is raised before the model is
            loaded.
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
        check_benchmarks(self.benchmarks)
        if self.benchmarks and kwargs.get("eval_dataset") is None:
            kwargs["eval_dataset"] = {}  # `Trainer` refuses to evaluate without a data set
        length: Any = args.max_completion_length
        reward_funcs = resolve_rewards(
            reward_funcs or [], args.extraction, max_completion_length=length
        )
        functions = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
        self._accuracy_rewards = [func for func in functions if isinstance(func, AccuracyReward)]
        default = resolve_rewards(accuracy_reward, args.extraction)
        self._judge = (self._accuracy_rewards or [default])[0]
        for judge in [*self._accuracy_rewards, *([self._judge] if self.benchmarks else [])]:
            judge.grader.start()
        refuse_clearing(model, args)
        model = os.fspath(model) if isinstance(model, os.PathLike) else model
        with claimed(args, is_own=True):  # refuses a taken folder before it loads a model
            super().__init__(model, reward_funcs, args, train_dataset, **kwargs)
        self.data_collator: Any = Rows
        refuse_unusable_tokenizer(self._tokenizer, self.train_dataset)
        if not self._is_vlm:
            tell_ends(self)
        self.check_length(args.max_completion_length)
        self.stop_together = StopTogether(self.accelerator)
        self.add_callback(self.stop_together)
        self.add_callback(HealthCallback(self))

    def _say_once(self, about: Hashable, text: str | None) -> None:
        """Log a warning on the main process, once per subject.

        Args:
            about: The subject; later texts about the same subject are not logged.
            text: The warning; None or an empty text logs nothing.
        """
        if text and about not in self._said and self.accelerator.is_main_process:
            self._said.add(about)
            logger.warning(text)
