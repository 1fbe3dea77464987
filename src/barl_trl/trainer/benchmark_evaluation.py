"""Greedy evaluation on benchmarks during training, by the trainer's own generation."""

import math
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor, nn
from transformers import GenerationConfig, Trainer
from trl import GRPOTrainer

from ..rewards import AccuracyReward
from .rollouts.agents import AgentMixin

# transformers warns of a sampling setting that greedy decoding ignores, unless it is the default
GREEDY = {"do_sample": False, "temperature": 1.0, "top_p": 1.0, "top_k": 50, "min_p": None}


class BenchmarkEvaluationMixin(AgentMixin):
    """Evaluate greedily on benchmarks whenever TRL evaluates.

    TRL's own evaluation samples as in training. This one decodes each problem's completion
    greedily. With tools or an environment it plays a whole episode; a `rollout_func` samples as it
    does in training. It logs `eval_<benchmark>/accuracy` (0 to 1), `eval_<benchmark>/mean_tokens`
    (trackers show them as `eval/<benchmark>/…`) and `eval_accuracy`, the mean over the benchmarks.
    Each of them can be `metric_for_best_model`. Training goes on as if there had been no
    evaluation.

    With a dict of evaluation sets TRL logs the metrics of every set under the same names, such as
    `eval_reward`, so that only the last set's remain. This class also logs them with the set's
    name, such as `eval_<set>_reward`.

    It extends `evaluate` instead of adding a callback, because `Trainer` looks for the best model
    in what `evaluate` returns.

    What it relies on in TRL: `vllm_generation.generation_kwargs` decide how vLLM samples;
    `generation_config` and `generation_kwargs` decide how transformers samples; `log` averages and
    logs `_metrics["eval"]`.
    """

    use_vllm: bool
    processing_class: Any
    model: nn.Module
    generation_kwargs: dict[str, Any]
    eos_token_ids: list[int]
    benchmarks: dict[str, Dataset]
    _judge: AccuracyReward
    _eval_set = ""

    def log(self, logs, start_time=None):  # noqa: D102 (TRL's)
        if not self.model.training and self._eval_set:
            metrics = self._metrics["eval"]
            metrics |= {f"{self._eval_set}_{name}": numbers for name, numbers in metrics.items()}
        super().log(logs, start_time)

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):  # noqa: D102
        self._eval_set = metric_key_prefix.removeprefix("eval").removeprefix("_")
        metrics = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        if eval_dataset is None and self.benchmarks:
            metrics |= self._evaluate_benchmarks(metric_key_prefix)
        return metrics

    def _evaluate_benchmarks(self, prefix: str) -> dict[str, float]:
        was_training = self.model.training
        metrics, accuracies = {}, []
        device = self.accelerator.device
        drawn = random.getstate(), np.random.get_state()  # environments may draw from these
        with torch.random.fork_rng([device] if device.type == "cuda" else []), greedy(self):
            for name, dataset in self.benchmarks.items():
                rewards, lengths = self._solve(dataset)
                accuracies.append(rewards.nanmean().item())
                metrics[f"{prefix}_{name}/accuracy"] = accuracies[-1]
                metrics[f"{prefix}_{name}/mean_tokens"] = lengths.mean().item()
        random.setstate(drawn[0])
        np.random.set_state(drawn[1])
        metrics[f"{prefix}_accuracy"] = sum(accuracies) / len(accuracies)
        # TRL's `log` would print and save the table of completions again
        Trainer.log(self, dict(metrics))
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        self.model.train(was_training)
        return metrics

    def _solve(self, dataset: Dataset) -> tuple[Tensor, Tensor]:
        """Generate a completion of each problem and judge it.

        All processes generate equally often, and equally many completions each time. Where the
        problems do not divide, the last problem is repeated, and the copies are dropped.

        Returns:
            The reward of each problem's completion, (N,), NaN without one; and the number of tokens
            that the model wrote in it, (N,), without the token that ends the last turn.
        """
        world, rank = self.accelerator.num_processes, self.accelerator.process_index
        most = len(dataset) if self.use_vllm else self.args.per_device_eval_batch_size
        results, start = [], 0
        while start < len(dataset):
            size = min(most, math.ceil((len(dataset) - start) / world))
            places = range(start + rank * size, start + (rank + 1) * size)
            problems = [dataset[min(place, len(dataset) - 1)] for place in places]
            episodes = self.play(problems)
            rewards = self._judge(
                [episode.completion for episode in episodes],
                [row["solution"] for row in problems],
                [episode.given_answer for episode in episodes],
            )
            local = [
                (math.nan if reward is None else reward, episode.num_tokens)
                for reward, episode in zip(rewards, episodes, strict=True)
            ]
            local = torch.tensor(local, dtype=torch.float32, device=self.accelerator.device)
            results.append(self.accelerator.gather(local))
            start += world * size
        rewards, lengths = torch.cat(results)[: len(dataset)].T
        return rewards, lengths


def check_benchmarks(benchmarks: Mapping[str, Dataset]) -> None:
    """Refuse benchmarks that cannot be evaluated.

    Args:
        benchmarks: Benchmark name -> its problems.

    Raises:
        ValueError: A benchmark has no problems or lacks a column.
    """
    for name, dataset in benchmarks.items():
        if not len(dataset) or not {"prompt", "solution"} <= set(dataset.column_names):
            raise ValueError(
                "benchmarks must have rows with the columns prompt and solution, got "
                f"{len(dataset)} rows with {dataset.column_names} in {name!r}: "
                "barl_trl.data.load_problems makes them."
            )


@contextmanager
def greedy(trainer: GRPOTrainer) -> Iterator[None]:
    """Let a trainer decode greedily inside this context, instead of sampling."""
    if trainer.use_vllm:
        owner: Any = trainer.vllm_generation
        changed: dict[str, Any] = {
            "generation_kwargs": owner.generation_kwargs | {"temperature": 0.0}
        }
    else:
        owner, kwargs = trainer, trainer.generation_kwargs | GREEDY
        config = GenerationConfig(**kwargs, disable_compile=True)
        changed = {"generation_kwargs": kwargs, "generation_config": config}
    original = {name: vars(owner)[name] for name in changed}
    vars(owner).update(changed)
    try:
        yield
    finally:
        vars(owner).update(original)
