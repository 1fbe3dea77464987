"""Short trainings of the demo's model on search problems, an arm and a seed each."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from barl_trl.report.json_files import write_json
from barl_trl.rewards import accuracy_reward
from barl_trl.steps import delimited_steps
from barl_trl.synthetic.search import STEP_DELIMITER, TINY_MODEL_DIR, problems
from barl_trl.trainer.config import BARLConfig

from ...sampling import sample
from ..arms import ARMS, file_name
from ..batches import CreditTask, TokenizedProblem
from .short_training import ShortTraining, train

EVALUATED = 400
"""Held-out problems of an evaluation, one sample each."""
ON_THE_WAY = 200
"""Held-out problems of an evaluation on the way, one sample each."""


@dataclass(frozen=True)
class SearchCondition:
    """What a model is trained on and tested with.

    Attributes:
        candidates: Number of candidates of a training problem.
        tokens: Most tokens of a completion in training.
        tests: What is measured: candidates and most tokens of each test, by name; the first one is
            measured on the way too.
        fixed_problems: Training problems, over and over; None: always new ones.
        steps: Optimizer steps.
    """

    candidates: int
    tokens: int
    tests: dict[str, tuple[int, int]]
    fixed_problems: int | None = None
    steps: int = 40


CONDITIONS = {
    "cut_off": SearchCondition(
        11, 64, {"accuracy": (11, 200), "seven_candidates": (7, 200), "as_trained": (11, 64)}
    ),
    "memorisation": SearchCondition(
        7, 128, {"accuracy": (7, 128), "eleven_candidates": (11, 200)}, fixed_problems=32
    ),
    "standard": SearchCondition(7, 128, {"accuracy": (7, 128), "eleven_candidates": (11, 200)}),
}


def run(
    condition_name: str, arm: str, seed: int, *, checkpoints: Path | None = None
) -> dict[str, Any]:
    """Train one arm with one seed.

    All arms of a seed have the same evaluation problems, and the same luck on them. Seeds share
    neither.

    Args:
        condition_name: A name in [`CONDITIONS`].
        arm: A name in [`ARMS`].
        seed: Seed of problems, rollouts and evaluation.
        checkpoints: Folder into which the model goes at each evaluation but the first; None: it is
            not kept.

    Returns:
        `condition`, `arm`, `seed`, and the `evaluations`.
    """
    condition = CONDITIONS[condition_name]
    disable_progress_bar()
    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL_DIR)
    model = AutoModelForCausalLM.from_pretrained(TINY_MODEL_DIR)
    task = search_task(tokenizer, condition.tokens)
    measured = train(
        model,
        task,
        ARMS[arm],
        training_problems(tokenizer, condition, seed),
        seed=seed,
        settings=ShortTraining(steps=condition.steps),
        evaluate=_HeldOut(task, condition, seed, checkpoints),
    )
    return {"condition": condition_name, "arm": arm, "seed": seed, "evaluations": measured}


def search_task(tokenizer: Any, tokens: int) -> CreditTask:
    """Return how the demo's rollouts are judged and scored."""
    segmenter = partial(delimited_steps, decode=tokenizer.decode, delimiter=STEP_DELIMITER)
    end_ids = [tokenizer.eos_token_id, tokenizer.pad_token_id]
    return CreditTask(
        tokenizer, accuracy_reward, segmenter, end_ids, tokens, BARLConfig(bf16=False)
    )


def training_problems(
    tokenizer: Any, condition: SearchCondition, seed: int
) -> Iterator[TokenizedProblem]:
    """Yield training problems without end."""
    stream = problems(seed, num_candidates=condition.candidates)
    if condition.fixed_problems is not None:
        stream = _epochs(list(islice(stream, condition.fixed_problems)), seed)
    for problem in stream:
        yield TokenizedProblem(tokenizer(problem.prompt)["input_ids"], problem.solution)


def _epochs(fixed: list[Any], seed: int) -> Iterator[Any]:
    order = random.Random(seed)
    while True:
        yield from order.sample(fixed, len(fixed))


@dataclass(frozen=True)
class _HeldOut:
    """Measures a model on a seed's held-out problems; all its tests before and after training."""

    task: CreditTask
    condition: SearchCondition
    seed: int
    checkpoints: Path | None

    def __call__(self, model: Any, step: int) -> dict[str, float]:
        if self.checkpoints is not None and step:
            folder = self.checkpoints / f"step-{step}"
            model.save_pretrained(folder)
            self.task.tokenizer.save_pretrained(folder)
        is_whole = step in (0, self.condition.steps)
        tests = list(self.condition.tests.items())
        measures = {}
        for name, (candidates, tokens) in tests if is_whole else tests[:1]:
            number = EVALUATED if is_whole else ON_THE_WAY
            accuracy, mean_tokens = self._measure(model, candidates, tokens, number)
            measures |= {name: accuracy, f"{name}/tokens": mean_tokens}
        return measures

    def _measure(
        self, model: nn.Module, candidates: int, tokens: int, number: int
    ) -> tuple[float, float]:
        """Return the accuracy and the mean tokens of completions of held-out problems."""
        stream = problems(100_000 + self.seed, held_out=True, num_candidates=candidates)
        tested = list(islice(stream, number))
        prompts = [self.task.tokenizer(problem.prompt)["input_ids"] for problem in tested]
        completions = sample(
            model,
            prompts,
            max_new_tokens=tokens,
            end_ids=self.task.end_ids,
            generator=torch.Generator().manual_seed(self.seed),
        )
        texts = [self.task.tokenizer.decode(ids, skip_special_tokens=True) for ids in completions]
        rewards = self.task.reward(texts, [problem.solution for problem in tested])
        return fmean(float(reward or 0) for reward in rewards), fmean(map(len, completions))


def path_of(output_dir: Path, condition: str, arm: str, seed: int) -> Path:
    """Return the file of a run."""
    return output_dir / condition / f"{file_name(arm)}-{seed}.json"


def run_into(path: Path, condition: str, arm: str, seed: int) -> None:
    """Train one arm with one seed, and write what [`run`] returns."""
    write_json(path, run(condition, arm, seed))
