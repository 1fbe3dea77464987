"""The paper's didactic example with a language model and [`BARLTrainer`].

A prompt is one token, "a", "b" or "c"; each token of a completion is an action, "0", "1" or "2".
"""

import argparse
import logging
import math
import tempfile
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from jaxtyping import Float
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    TrainerCallback,
)
from transformers.utils.logging import disable_progress_bar

from barl_trl import BARLConfig, BARLTrainer

from ..sampling import sample
from ..tools import FileJob, write_json
from .triplets import ALL_TRIPLETS, NUM_ACTIONS, NUM_STEPS, REPEATS, show

_PROMPTS = "abc"
_VOCABULARY = "012" + _PROMPTS + "."
_NEVER = -1e4
"""Logit of a token that is no action: its probability is 0."""


def rows(prompts: Sequence[int], triplets: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """Return rows of a data set: the prompt, the triplet that pays, and those that might."""
    listed = ["".join(map(str, triplet)) for triplet in triplets]
    return [{"prompt": _PROMPTS[n], "solution": str(n) * 3, "triplets": listed} for n in prompts]


def solved(completions: list[str], solution: list[str], **columns: Any) -> list[float]:
    """Return 1 for a completion with the triplet that pays, else 0: a reward function."""
    return [float(triplet in text) for text, triplet in zip(completions, solution, strict=True)]


def hypothesis_rewards(
    hypotheses: list[list[str]], steps: list[list[str]], **columns: Any
) -> list[Float[np.ndarray, "step hypothesis"]]:
    """Return 1 where a step completes a hypothesis's triplet for the first time, else 0.

    Args:
        hypotheses: Triplets of each rollout, the truth first.
        steps: Actions of each step of each rollout.
        **columns: Not used.
    """
    output = []
    for triplets, texts in zip(hypotheses, steps, strict=True):
        text, ends = "".join(texts), [*accumulate(map(len, texts))]
        rewards = np.zeros((len(texts), len(triplets)))
        for n, triplet in enumerate(triplets):
            place = text.find(triplet)
            if place >= 0:
                rewards[bisect_left(ends, place + len(triplet)), n] = 1.0
        output.append(rewards)
    return output


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer with a token for each action and each prompt; "." is padding and EOS."""
    core = Tokenizer(models.WordLevel({c: n for n, c in enumerate(_VOCABULARY)}, unk_token="."))
    core.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token=".", eos_token=".", padding_side="left"
    )


def make_model(seed: int) -> GPT2LMHeadModel:
    """Make a policy of one layer that takes each action with probability 1/3.

    All prompts start with one embedding: what is learned for two of them then holds for a prompt
    that was never trained. One of its own, at random, would be noise to the policy.
    """
    torch.manual_seed(seed)
    end = _VOCABULARY.index(".")
    config = GPT2Config(
        vocab_size=len(_VOCABULARY),
        n_positions=NUM_STEPS + 1,
        n_embd=32,
        n_layer=1,
        n_head=2,
        activation_function="relu",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=end,
    )
    model = GPT2LMHeadModel(config)
    for embeddings in (model.transformer.wte, model.transformer.wpe):
        nn.init.normal_(embeddings.weight)
    model.lm_head = nn.Linear(config.n_embd, len(_VOCABULARY))
    first = _VOCABULARY.index(_PROMPTS[0])
    with torch.no_grad():
        model.transformer.wte.weight[first : first + len(_PROMPTS)] = model.transformer.wte.weight[
            first
        ].clone()
        model.lm_head.weight.zero_()
        model.lm_head.bias.fill_(_NEVER)[:NUM_ACTIONS] = 0.0
    return model


def accuracies(
    model: nn.Module, tokenizer: PreTrainedTokenizerFast, completions: int
) -> list[float]:
    """Sample completions of each prompt, and return the share that is solved, by prompt."""
    shares = []
    for row in rows(range(len(_PROMPTS)), ()):
        ids = sample(
            model,
            [tokenizer(row["prompt"])["input_ids"]] * completions,
            max_new_tokens=NUM_STEPS,
            end_ids=[],
            generator=torch.default_generator,
        )
        texts = tokenizer.batch_decode(ids)
        shares.append(fmean(solved(texts, [row["solution"]] * completions)))
    return shares


# Training


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
        record = {"iteration": batches, "train_accuracy": mean, "unseen_accuracy": unseen}
        self.records.append(record)


def run(arm: TripletArm, seed: int, scale: Scale) -> list[dict[str, float]]:
    """Train a policy, and return its accuracies on the way, the first before training.

    The records have the number of batches before (`iteration`), `train_accuracy` (the mean of the
    training prompts) and `unseen_accuracy`.
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


def main(argv: list[str] | None = None) -> None:
    """Train every arm with every seed whose file is missing, and print the final accuracies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="seeds per arm (default: 3)")
    parser.add_argument("--quick", action="store_true", help="two small batches, for a test")
    parser.add_argument("--output_dir", type=Path, default=Path("outputs/triplets-lm"))
    options = parser.parse_args(argv)
    scale = Scale(2, 8, 1, 5) if options.quick else Scale()
    folder = options.output_dir / ("quick" if options.quick else "runs")
    jobs = [
        FileJob(folder / f"{name}-{seed}.json", run_into, (name, seed, scale))
        for name in ARMS
        for seed in range(options.seeds)
    ]
    titles = {name: arm.title for name, arm in ARMS.items()}
    show(f"Accuracies after {scale.batches} batches", titles, jobs, options.output_dir)


if __name__ == "__main__":
    main()
