"""Greedy evaluation on benchmarks during training, by the trainer's own generation."""

import math
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
from transformers import GenerationConfig, Trainer

from ..graders.choices import COLUMN as OPTIONS

# transformers warns of a sampling setting that greedy decoding ignores, unless it is the default
GREEDY = {"do_sample": False, "temperature": 1.0, "top_p": 1.0, "top_k": 50, "min_p": None}


def check_benchmarks(benchmarks: Mapping[str, Dataset]) -> None:
    """Refuse benchmarks (name -> problems) without problems, or without a column that is needed."""
    for name, rows in benchmarks.items():
        if not len(rows) or not {"prompt", "solution"} <= {*rows.column_names}:
            raise ValueError(
                f"benchmarks must have rows with prompt and solution, got {len(rows)} rows with "
                f"{rows.column_names} in {name!r}: barl_trl.data.load_problems makes them."
            )


def evaluate_benchmarks(trainer: Any, prefix: str = "eval") -> dict[str, float]:
    """Evaluate greedily on the trainer's benchmarks, and log the metrics.

    TRL's own evaluation samples as in training. This one decodes each problem's completion
    greedily; with tools or an environment it plays a whole episode, and a `rollout_func` samples as
    it does in training. Training goes on as if there had been no evaluation.

    Returns:
        `<prefix>_<benchmark>/accuracy` (0 to 1), `<prefix>_<benchmark>/mean_tokens`, and
        `<prefix>_accuracy`, the mean over the benchmarks. Each can be `metric_for_best_model`.
    """
    was_training, device = trainer.model.training, trainer.accelerator.device
    metrics, accuracies = {}, []
    drawn = random.getstate(), np.random.get_state()  # environments may draw from these
    with torch.random.fork_rng([device] if device.type == "cuda" else []), greedy(trainer):
        for name, dataset in trainer.benchmarks.items():
            rewards, lengths = _solve(trainer, dataset)
            accuracies.append(rewards.nanmean().item())
            metrics[f"{prefix}_{name}/accuracy"] = accuracies[-1]
            metrics[f"{prefix}_{name}/mean_tokens"] = lengths.mean().item()
    random.setstate(drawn[0])
    np.random.set_state(drawn[1])
    metrics[f"{prefix}_accuracy"] = sum(accuracies) / len(accuracies)
    # TRL's `log` would print and save the table of completions again
    Trainer.log(trainer, dict(metrics))
    # `EarlyStoppingCallback` and the like see them, too
    trainer.control = trainer.callback_handler.on_evaluate(
        trainer.args, trainer.state, trainer.control, metrics
    )
    trainer.model.train(was_training)
    return metrics


def metrics_of_set(trainer: Any, metrics: Mapping[str, float], prefix: str) -> dict[str, float]:
    """Log TRL's metrics of one set of a dict of evaluation sets under the set's name, too.

    TRL logs those of every set under the same names, such as `eval_reward`, so that only the last
    set's would remain. With the prefix `eval_<set>` the names returned are like
    `eval_<set>_reward`; with the prefix `eval` of a single set there are none.
    """
    if not prefix.startswith("eval_"):
        return {}
    named = {
        f"{prefix}_{name.removeprefix('eval_')}": value
        for name, value in metrics.items()
        if name.startswith("eval_") and not name.startswith(f"{prefix}_")
    }
    Trainer.log(trainer, dict(named))
    return named


def _solve(trainer: Any, dataset: Dataset) -> tuple[Tensor, Tensor]:
    """Return the reward of each problem's completion, or NaN, and the number of its own tokens.

    All processes generate equally often, and equally many completions each time. Where the problems
    do not divide, the last problem is repeated, and the copies are dropped.
    """
    world, rank = trainer.accelerator.num_processes, trainer.accelerator.process_index
    most = len(dataset) if trainer.use_vllm else trainer.args.per_device_eval_batch_size
    results, start = [], 0
    while start < len(dataset):
        size = min(most, math.ceil((len(dataset) - start) / world))
        places = range(start + rank * size, start + (rank + 1) * size)
        problems = [dataset[min(place, len(dataset) - 1)] for place in places]
        episodes = trainer.play(problems)
        rewards = trainer._judge(
            [episode.completion for episode in episodes],
            [row["solution"] for row in problems],
            [episode.given_answer for episode in episodes],
            [row.get(OPTIONS) for row in problems],
        )
        local = [
            (math.nan if reward is None else reward, episode.num_tokens)
            for reward, episode in zip(rewards, episodes, strict=True)
        ]
        local = torch.tensor(local, dtype=torch.float32, device=trainer.accelerator.device)
        results.append(trainer.accelerator.gather(local))
        start += world * size
    rewards, lengths = torch.cat(results)[: len(dataset)].T
    return rewards, lengths


@contextmanager
def greedy(trainer: Any) -> Iterator[None]:
    """Let a trainer decode greedily inside this context, instead of sampling.

    What it relies on in TRL: `vllm_generation.generation_kwargs` decide how vLLM samples,
    `generation_config` and `generation_kwargs` how transformers does.
    """
    if trainer.use_vllm:
        owner: Any = trainer.vllm_generation
        kwargs = owner.generation_kwargs | {"temperature": 0.0}
        changed: dict[str, Any] = {"generation_kwargs": kwargs}
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
