"""Trainings of the didactic example with [`BARLTrainer`], an arm and a seed each."""

import logging
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import TrainerCallback
from transformers.utils.logging import disable_progress_bar

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.report.json_files import write_json
from barl_trl.synthetic.triplets import ALL_TRIPLETS, NUM_STEPS, REPEATS

from .episodes import accuracies, hypothesis_rewards, make_model, make_tokenizer, rows, solved


@dataclass(frozen=True)
class TripletArm:
    """What a policy is trained with."""

    title: str
    triplets: tuple[tuple[int, ...], ...] = ()
    """The hypotheses; none: RL."""
    entropy_coefs: tuple[float, float] = (0.0, 0.0)
    """Coefficient of the entropy bonus at first and at last; it falls linearly."""


_ENTROPY_COEFS = (0.0055, 0.001)
ARMS = {
    "rl": TripletArm("RL (RLOO)"),
    "barl-27": TripletArm("BARL, 27 hypotheses", ALL_TRIPLETS, _ENTROPY_COEFS),
    "barl-3": TripletArm("BARL, 3 hypotheses", REPEATS, _ENTROPY_COEFS),
}


@dataclass(frozen=True)
class Scale:
    """How long and how broad a training is."""

    batches: int = 240
    """Rollout batches, of the training prompts 0 and 1."""
    num_generations: int = 128
    """Rollouts of each prompt."""
    evaluate_every: int = 10
    """Batches between two evaluations; the first is before the training, the last after it."""
    completions: int = 50
    """Completions per prompt of an evaluation."""


_PASSES = 4  # optimizer steps for each batch of rollouts, which take longer than a step


def make_trainer(
    arm: TripletArm, seed: int, scale: Scale, output_dir: str | Path, **settings: Any
) -> BARLTrainer:
    """Make the trainer of an arm.

    Args:
        arm: Its hypotheses and entropy bonus.
        seed: Seed of the model and of the rollouts.
        scale: The number of batches and their size.
        output_dir: Folder of the trainer, which writes nothing there.
        **settings: Settings in place of the experiment's.
    """
    credit: dict[str, Any] = {"credit": "rloo"}
    if arm.triplets:
        credit = {
            "credit": "barl",
            "belief": "task",
            "consistency_beta": math.inf,
            "hypotheses_column": "triplets",
            "credit_baseline": "step",
            "value_normalization": "none",
            # the predicted rewards are those of the triplets: the outcome would count them twice
            "reward_weights": [0.0],
        }
    steps = scale.batches * _PASSES
    defaults: dict[str, Any] = {
        "num_generations": scale.num_generations,
        "per_device_train_batch_size": 2 * scale.num_generations,
        "max_steps": steps,
        "num_iterations": _PASSES,
        "shuffle_dataset": False,  # both prompts in each batch
        "step_size": 1,
        "max_completion_length": NUM_STEPS,
        "entropy_coef": arm.entropy_coefs[0],
        "learning_rate": 3e-3,
        "lr_scheduler_type": "warmup_stable_decay",
        "lr_scheduler_kwargs": {"num_decay_steps": steps // 4, "decay_type": "linear"},
        "seed": seed,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "save_strategy": "no",
        "report_to": "none",
        "logging_strategy": "no",
        "disable_tqdm": True,
    }
    return BARLTrainer(
        model=make_model(seed),
        reward_funcs=solved,
        args=BARLConfig(str(output_dir), **defaults | credit | settings),
        train_dataset=Dataset.from_list(rows((0, 1), arm.triplets) * scale.batches),
        processing_class=make_tokenizer(),
        answer_extractor=_no_answer,
        hypothesis_rewards=hypothesis_rewards if arm.triplets else None,
    )


def _no_answer(completion: str) -> None:
    """Return None: an episode has actions, and no answer."""


class _Course(TrainerCallback):
    """Lets the entropy bonus fall, for which TRL has no setting, and evaluates on the way."""

    def __init__(self, trainer: BARLTrainer, arm: TripletArm, seed: int, scale: Scale):
        self.trainer, self.arm, self.seed, self.scale = trainer, arm, seed, scale
        self.records: list[dict[str, float]] = []

    def on_train_begin(self, args, state, control, **kwargs):
        self._evaluate(0)

    def on_step_end(self, args, state, control, **kwargs):
        first, last = self.arm.entropy_coefs
        self.trainer.entropy_coef = first + (last - first) * state.global_step / state.max_steps
        batches, left = divmod(state.global_step, _PASSES)
        if not left and (batches % self.scale.evaluate_every == 0 or batches == self.scale.batches):
            self._evaluate(batches)

    def _evaluate(self, batches: int) -> None:
        model: Any = self.trainer.model
        model.eval()
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            tokenizer: Any = self.trainer.processing_class
            *trained, unseen = accuracies(model, tokenizer, self.scale.completions)
        model.train()
        mean = sum(trained) / len(trained)
        record = {"batches": batches, "train_accuracy": mean, "unseen_accuracy": unseen}
        self.records.append(record)


def run(arm: TripletArm, seed: int, scale: Scale) -> list[dict[str, float]]:
    """Train a policy, and return its accuracies on the way, the first before training.

    The records have the number of `batches` before, `train_accuracy` (the mean of the training
    prompts) and `unseen_accuracy`.
    """
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(arm, seed, scale, folder)
        course = _Course(trainer, arm, seed, scale)
        trainer.add_callback(course)
        trainer.train()
    return course.records


def run_into(path: Path, name: str, seed: int, scale: Scale) -> None:
    """Train an arm with a seed in a process of its own, and write its records."""
    disable_progress_bar()
    logging.disable(logging.WARNING)  # of completions that are all cut off, as they must be
    records = run(ARMS[name], seed, scale)
    write_json(path, [{"arm": name, "seed": seed, **record} for record in records])
