"""Parts C to E: short trainings of the search demo's model that differ in the credit alone."""

import tempfile
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.rewards import accuracy_reward
from barl_trl.steps import delimited_steps
from barl_trl.synthetic.search import STEP_DELIMITER, TINY_MODEL_DIR, problems, search_rows

from ..sampling import sample
from ..tools import write_json
from .arms import ARMS

EVALUATED = 400
"""Held-out problems of an evaluation, one sample each."""
PROMPTS, GROUP = 8, 8
"""Prompts of an optimizer step, and rollouts of each."""


@dataclass(frozen=True)
class Condition:
    """What a model is trained on and tested with.

    Attributes:
        candidates: Number of candidates of a training problem.
        tokens: Most tokens of a completion in training.
        tests: Candidates and most tokens of each test, by name.
        num_problems: Training problems, over and over; None: always new ones.
    """

    candidates: int
    tokens: int
    tests: dict[str, tuple[int, int]]
    num_problems: int | None = None


CONDITIONS = {
    "cut_off": Condition(
        11, 64, {"accuracy": (11, 200), "seven_candidates": (7, 200), "as_trained": (11, 64)}
    ),
    "memorisation": Condition(
        7, 128, {"accuracy": (7, 128), "eleven_candidates": (11, 200)}, num_problems=32
    ),
    "standard": Condition(7, 128, {"accuracy": (7, 128), "eleven_candidates": (11, 200)}),
}


def run_into(path: Path, condition_name: str, arm: str, seed: int, steps: int = 40) -> None:
    """Train one arm with one seed, and write what it reached on held-out problems.

    All arms of a seed have the same problems, for training and for tests, and the same luck on
    them. Seeds share neither.
    """
    condition, made = CONDITIONS[condition_name], ARMS[arm]
    tokenizer: Any = AutoTokenizer.from_pretrained(TINY_MODEL_DIR)
    number = condition.num_problems or steps * PROMPTS
    rows = search_rows(number, seed=seed, num_candidates=condition.candidates)
    with tempfile.TemporaryDirectory() as folder:
        args = BARLConfig(
            folder,
            credit=made.credit,
            credit_options=made.options or None,
            max_steps=steps,
            per_device_train_batch_size=PROMPTS * GROUP,
            num_generations=GROUP,
            max_completion_length=condition.tokens,
            learning_rate=3e-4,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=5,
            gradient_checkpointing=False,
            logging_steps=steps,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            bf16=False,
            seed=seed,
        )
        trainer = BARLTrainer(
            AutoModelForCausalLM.from_pretrained(TINY_MODEL_DIR),
            accuracy_reward,
            args,
            Dataset.from_list(rows),
            processing_class=tokenizer,
            step_segmenter=partial(
                delimited_steps, decode=tokenizer.decode, delimiter=STEP_DELIMITER
            ),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    measured = {}
    for name, (candidates, tokens) in condition.tests.items():
        measured[name], measured[f"{name}/tokens"] = _measure(
            trainer.model, tokenizer, candidates, tokens, seed
        )
    write_json(path, measured)


@torch.no_grad()
def _measure(
    model: Any, tokenizer: Any, candidates: int, tokens: int, seed: int
) -> tuple[float, float]:
    """Return the accuracy and the mean tokens of sampled completions of held-out problems."""
    stream = problems(100_000 + seed, held_out=True, num_candidates=candidates)
    tested = list(islice(stream, EVALUATED))
    completions = sample(
        model.eval(),
        [tokenizer(problem.prompt)["input_ids"] for problem in tested],
        max_new_tokens=tokens,
        end_ids=[tokenizer.eos_token_id, tokenizer.pad_token_id],
        generator=torch.Generator().manual_seed(seed),
    )
    texts = [tokenizer.decode(ids, skip_special_tokens=True) for ids in completions]
    rewards = accuracy_reward(texts, [problem.solution for problem in tested])
    return fmean(float(reward or 0) for reward in rewards), fmean(map(len, completions))
