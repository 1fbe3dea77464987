"""One training of one arm, and what is measured along it."""

import operator
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback

from barl_trl import BARLConfig, BARLTrainer, text_rollouts

from ..tools import write_json
from .ahead import observation_likelihood
from .arms import ARMS
from .environments import GAMES, model_dir, what_is_left
from .games import BUDGETS, CONDITIONS, make_task
from .remembering import RememberingTrainer
from .taught import TaughtTrainer

GROUP = 8
EVALUATIONS = 8
MEASURED = ("questions", "belief_entropy", "determined", "unanswered", "log_score")
"""What [`found_secret`][.environments] logs of the games of an evaluation."""


@dataclass(frozen=True)
class Setting:
    """What is tuned, for every arm alike."""

    learning_rate: float
    entropy_coef: float


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    steps: float = 1.0
    """Share of the game's optimizer steps."""
    tests: int = 256
    """Games of an evaluation on the way."""
    final_tests: int = 1024
    """Games of the last evaluation."""
    rollouts: int = 64
    """Rollouts of an optimizer step."""


class FallingWeight(TrainerCallback):
    """Let the information weight fall from its value to 0."""

    def on_train_begin(self, args: Any, state, control, **kwargs):
        """Keep the weight of the first step."""
        self._first = args.credit_options["information_weight"]

    def on_step_begin(self, args: Any, state, control, **kwargs):
        """Set the weight of the step's rollouts."""
        left = 1 - state.global_step / state.max_steps
        args.credit_options = args.credit_options | {"information_weight": self._first * left}


def run_into(
    path: Path, game: str, condition: str, arm: str, seed: int, setting: Setting, scale: Scale
) -> None:
    """Train an arm, and write what was measured along it."""
    started = time.process_time()
    budget = BUDGETS[game]
    steps = max(EVALUATIONS, round(budget.steps * scale.steps * CONDITIONS[condition].length))
    task = make_task(
        game,
        CONDITIONS[condition],
        seed=seed,
        count=steps * scale.rollouts // GROUP,
        tests=scale.final_tests,
    )
    chosen = ARMS[arm]
    fields: dict[str, Any] = dict(chosen.fields)
    if "prior" in task.rows[0] and "belief" in fields:
        fields["prior_column"] = "prior"
    is_text = hasattr(GAMES[game], "step")
    playing: dict[str, Any] = {"environment_factory": task.environment}
    if is_text:
        playing = {"rollout_func": text_rollouts(task.environment, max_turns=budget.questions)}
        if game == "guess":  # it has rewards of turns, and no belief
            del fields["belief"]
    uses_states = fields.get("credit_baseline") == "state" and not is_text
    state_key = what_is_left(GAMES[game].inquiry) if uses_states else None
    with tempfile.TemporaryDirectory() as folder:
        args = BARLConfig(
            folder,
            hypotheses_column=None if is_text else "candidates",
            max_steps=steps,
            per_device_train_batch_size=scale.rollouts,
            num_generations=GROUP,
            per_device_eval_batch_size=scale.tests,
            num_generations_eval=1,
            eval_strategy="steps",
            eval_steps=steps // EVALUATIONS,
            eval_on_start=True,
            max_completion_length=budget.tokens,
            step_size=budget.tokens,
            max_tool_calling_iterations=budget.questions,
            learning_rate=setting.learning_rate,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=5,
            entropy_coef=setting.entropy_coef,
            max_grad_norm=0.1,  # a rare large gradient ended arms: they stopped to write calls
            logging_steps=max(1, steps // EVALUATIONS),
            gradient_checkpointing=False,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            bf16=False,
            seed=seed,
            **fields,
        )
        trainer_of: Callable[..., BARLTrainer] = RememberingTrainer
        rewards: Any = task.rewards
        if chosen.taught:
            texts = GAMES[game].inquiry.hypotheses
            trainer_of = partial(TaughtTrainer, hypotheses=texts, weight=chosen.taught)
            (rewards,) = rewards
        trainer = trainer_of(
            str(model_dir(game)),
            rewards,
            args,
            Dataset.from_list(task.rows),
            eval_dataset=Dataset.from_list(task.test_rows[: scale.tests]),
            **playing,
            answer_equivalence=operator.eq,
            observation_likelihood=observation_likelihood if chosen.looks_ahead else None,
            callbacks=[FallingWeight] if chosen.weight_falls else None,
            state_key=state_key,
        )
        trainer.remove_callback(PrinterCallback)
        all_tests: Any = Dataset.from_list(task.test_rows)
        trainer.train()
        trained = time.process_time() - started
        final = trainer.evaluate(all_tests)
    curve = [measured(log) for log in trainer.state.log_history if "eval_reward" in log][:-1]
    write_json(
        path,
        {
            "game": game,
            "condition": condition,
            "arm": arm,
            "seed": seed,
            "setting": vars(setting),
            "curve": curve,
            "training_curve": [
                {"step": log["step"], "accuracy": log["rewards/found_secret/mean"]}
                for log in trainer.state.log_history
                if "rewards/found_secret/mean" in log
            ],
            "final": measured(final | {"step": steps}),
            "stopped_answering": [point["step"] for point in curve if point["unanswered"] > 0.5],
            "rollouts": steps * scale.rollouts,
            "cpu_seconds": round(trained, 1),
            "date": date.today().isoformat(),
            "versions": {
                name: version(name) for name in ("barl-trl", "torch", "transformers", "trl")
            },
        },
    )


def measured(log: dict[str, Any]) -> dict[str, float]:
    """Return what an evaluation on games logged, with its `step` and `accuracy`."""
    return {
        "step": log["step"],
        "accuracy": log["eval_rewards/found_secret/mean"],
        "tokens": log["eval_completions/mean_length"],
        **{name: log[f"eval_{name}"] for name in MEASURED},
    }
