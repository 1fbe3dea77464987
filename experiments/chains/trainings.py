"""The arms, one training of an arm, and which are run."""

import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from datasets import Dataset
from transformers import AutoTokenizer, PrinterCallback

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.steps import delimited_steps

from ..tools import FileJob, read_json, write_json
from .model import ELICITATION, MOST_TOKENS, rows, warm_up

RATES = (3e-4, 1e-3, 3e-3)
TUNING_SEEDS, REPORTED_SEEDS = (101, 102, 103), (11, 12, 13, 14, 15, 16)
GROUP, TEST_SEED = 8, 10_000
BETAS = (0.0, 1.0, math.inf)


def _arms() -> dict[str, dict[str, Any]]:
    arms: dict[str, dict[str, Any]] = {"grpo": {"credit": "grpo"}}
    for baseline in ("none", "step"):
        arms[f"progress-{baseline}"] = {"credit": "progress", "credit_baseline": baseline}
        for beta in BETAS:
            arms[f"barl-{beta:g}-{baseline}"] = {
                "credit": "barl",
                "consistency_beta": beta,
                "credit_baseline": baseline,
            }
    return arms


ARMS = _arms()
"""Fields of `BARLConfig` of each arm, by name."""


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    steps: int = 60
    """Optimizer steps."""
    rollouts: int = 64
    """Rollouts of each."""
    tests: int = 2048
    """New prompts, each with one response."""
    warm_steps: int = 3000
    """Steps of the warm start."""


def right(completions: Sequence[str], solution: Sequence[str], **columns: Any) -> list[float]:
    """Reward 1.0 for the right number in the box, 0.0 for any other."""
    return [
        float(f"\\boxed{{{truth}}}" in text)
        for text, truth in zip(completions, solution, strict=True)
    ]


def run_into(path: Path, model: Path, arm: str, seed: int, rate: float, scale: Scale) -> None:
    """Train an arm, and write its accuracy before, along and after the training."""
    started = time.process_time()
    tokenizer = AutoTokenizer.from_pretrained(model)
    with tempfile.TemporaryDirectory() as folder:
        args = BARLConfig(
            folder,
            max_steps=scale.steps,
            per_device_train_batch_size=scale.rollouts,
            num_generations=GROUP,
            per_device_eval_batch_size=512,
            num_generations_eval=1,
            max_completion_length=MOST_TOKENS,
            elicitation=ELICITATION,
            learning_rate=rate,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=5,
            logging_steps=max(1, scale.steps // 15),
            gradient_checkpointing=False,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            bf16=False,
            seed=seed,
            **ARMS[arm],
        )
        test_rows: Any = Dataset.from_list(rows(scale.tests, seed=TEST_SEED + seed))
        trainer = BARLTrainer(
            str(model),
            right,
            args,
            Dataset.from_list(rows(scale.steps * scale.rollouts // GROUP, seed=seed)),
            eval_dataset=test_rows,
            processing_class=tokenizer,
            step_segmenter=partial(
                delimited_steps,
                decode=partial(tokenizer.decode, skip_special_tokens=False),
                delimiter="\n",
            ),
        )
        trainer.remove_callback(PrinterCallback)
        before = trainer.evaluate()
        trainer.train()
        after = trainer.evaluate()
    write_json(
        path,
        {
            "arm": arm,
            "seed": seed,
            "rate": rate,
            "before": before["eval_reward"],
            "accuracy": after["eval_reward"],
            "tokens": after["eval_completions/mean_length"],
            "curve": [
                {"step": log["step"], "accuracy": log["reward"]}
                for log in trainer.state.log_history
                if "reward" in log
            ],
            "rollouts": scale.steps * scale.rollouts,
            "cpu_seconds": round(time.process_time() - started, 1),
            "date": date.today().isoformat(),
            "versions": {
                name: version(name) for name in ("barl-trl", "torch", "transformers", "trl")
            },
        },
    )


def path_of(folder: Path, arm: str, seed: int, rate: float) -> Path:
    """Return the file of a training."""
    return folder / arm / f"{rate:g}-{seed}.json"


def tuning_jobs(folder: Path, arms: Sequence[str], scale: Scale) -> Iterator[FileJob]:
    """Yield the trainings that try each rate."""
    for seed, arm, rate in product(TUNING_SEEDS, arms, RATES):
        yield _job(folder, arm, seed, rate, scale)


def reported_jobs(folder: Path, arms: Sequence[str], scale: Scale) -> Iterator[FileJob]:
    """Yield the trainings that are reported, each at the rate of its arm."""
    rates = {arm: best_rate(folder, arm) for arm in arms}
    for seed, arm in product(REPORTED_SEEDS, arms):
        yield _job(folder, arm, seed, rates[arm], scale)


def accuracies(folder: Path, arm: str) -> dict[float, float]:
    """Return the mean accuracy of an arm at each rate, over the seeds of tuning."""
    return {
        rate: fmean(
            read_json(path_of(folder, arm, seed, rate))["accuracy"] for seed in TUNING_SEEDS
        )
        for rate in RATES
    }


def best_rate(folder: Path, arm: str) -> float:
    """Return the rate at which an arm was best in tuning; of equals the lowest."""
    means = accuracies(folder, arm)
    return max(means, key=lambda rate: (means[rate], -rate))


def warm_job(folder: Path, scale: Scale) -> FileJob:
    """Return the job that makes the model."""
    return FileJob(folder / "warm.json", warm_up, (_model_of(folder), scale.warm_steps))


def _job(folder: Path, arm: str, seed: int, rate: float, scale: Scale) -> FileJob:
    arguments = _model_of(folder), arm, seed, rate, scale
    return FileJob(path_of(folder, arm, seed, rate), run_into, arguments)


def _model_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-model")
