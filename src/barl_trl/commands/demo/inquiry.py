"""The demo of finding out: the same agent trained with GRPO and with a credit, side by side."""

import time
from copy import copy
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset

from ...evaluation.statistics.metrics import clopper_pearson
from ...report.figures import inquiry_figure
from ...report.inspector.site import Site
from ...report.json_files import write_json
from ...report.rollout_records import FOLDER
from ...synthetic.inquiry import (
    NumberGame,
    found_secret,
    inquiry_model_dir,
    optimal_number_accuracy,
    random_question,
    reference_play,
)
from ...trainer import BARLConfig, BARLTrainer
from ...trainer.hub.model_card import card_settings
from ..shell.console import print_note
from ..train.training_console import print_rows

HELD_OUT_SEED = 10_007
NUM_GAMES = 1024
REFERENCE_GAMES = 8192
"""Games of which the agent that asks at random finds a share, without a model."""
_MEASURED = ("questions", "belief_entropy", "determined", "unanswered", "log_score")
"""What [`~barl_trl.synthetic.inquiry.found_secret`] logs of the games of an evaluation."""


def run(args: BARLConfig) -> dict[str, Any]:
    """Train two arms from the same model, on as many rollouts, and write everything to a folder.

    Args:
        args: The settings of both. The first arm has the outcome relative to the group's as its
            credit, the second one `args.credit`.

    Returns:
        The contents of `summary.json`.
    """
    started = time.perf_counter()
    torch.set_num_threads(1)  # the model is so small that more threads are slower
    output_dir, inquiry = Path(str(args.output_dir)), NumberGame.inquiry
    trained = {}
    for credit in ("grpo", args.credit):
        print_note(f"Training with credit={credit!r}:")
        of_arm = copy(args)
        of_arm.credit, of_arm.output_dir = credit, str(output_dir / credit)
        if credit == "grpo":
            of_arm.credit_options = None
        trained[credit] = _train(of_arm)
    questions = args.max_tool_calling_iterations or 0
    plays = reference_play(inquiry, random_question, questions, games=REFERENCE_GAMES)
    references = {
        "Bayes-optimal": optimal_number_accuracy(len(inquiry.hypotheses), questions),
        "random questions": plays.accuracy,
        "guessing at once": 1 / len(inquiry.hypotheses),
    }
    curves = {name: of_arm["curve"] for name, of_arm in trained.items()}
    write_json(output_dir / "curves.json", {"references": references, "arms": curves})
    inquiry_figure.draw(output_dir / "curves.json", output_dir / "training.png")
    page = output_dir / "inspect"
    if args.log_beliefs:
        Site([output_dir / name / FOLDER for name in trained], [*trained], page).update()
    summary = {
        "settings": card_settings(args),
        "seeds": {"training": args.seed, "held_out": HELD_OUT_SEED},
        "games": NUM_GAMES,
        "references": references,
        "before": trained["grpo"]["before"],
        "after": {name: of_arm["final"] for name, of_arm in trained.items()},
        "page": str(page / "index.html") if args.log_beliefs else None,
        "seconds": round(time.perf_counter() - started, 1),
    }
    write_json(output_dir / "summary.json", summary)
    return summary


def _train(args: BARLConfig) -> dict[str, Any]:
    """Train one arm, and measure it along the way and at the end."""
    inquiry = NumberGame.inquiry
    rollouts = args.max_steps * (args.generation_batch_size or 0)
    test_rows = inquiry.rows(NUM_GAMES, seed=HELD_OUT_SEED)
    all_games: Any = Dataset.from_list(test_rows)
    some_games = Dataset.from_list(test_rows[: args.per_device_eval_batch_size])
    trainer = BARLTrainer(
        inquiry_model_dir("number"),
        found_secret,
        args,
        Dataset.from_list(inquiry.rows(rollouts // (args.num_generations or 1), seed=args.seed)),
        eval_dataset=some_games,
        environment_factory=NumberGame,
    )
    print_rows(trainer)
    with torch.random.fork_rng():  # the rollouts do not depend on this evaluation
        before = trainer.evaluate(all_games)
    trainer.train()
    logs = [log for log in trainer.state.log_history if "eval_reward" in log]
    final = trainer.evaluate(all_games)
    trainer.save_model()
    trainer.state.save_to_json(f"{args.output_dir}/trainer_state.json")
    return {
        "curve": [*map(measured, logs)],
        "before": measured(before | {"step": 0}),
        "final": measured(final | {"step": args.max_steps}),
    }


def measured(log: dict[str, Any]) -> dict[str, float]:
    """Return what an evaluation on games logged, with its `step` and `accuracy`."""
    return {
        "step": log["step"],
        "accuracy": log["eval_rewards/found_secret/mean"],
        "tokens": log["eval_completions/mean_length"],
        **{name: log[f"eval_{name}"] for name in _MEASURED},
    }


def table_rows(summary: dict[str, Any]) -> list[dict[str, str]]:
    """Return the rows of the table: what the arms reached, with intervals over games."""
    columns, games = {"before": summary["before"], **summary["after"]}, summary["games"]

    def row(label: str, name: str, form: Any) -> dict[str, str]:
        return {"": label} | {arm: form(of_arm[name]) for arm, of_arm in columns.items()}

    def share(value: float) -> str:
        low, high = clopper_pearson(round(value * games), games)
        return f"{100 * value:.0f} % [{100 * low:.0f}, {100 * high:.0f}]"

    return [
        row("secrets found", "accuracy", share),
        row("determined by the replies", "determined", share),
        row("questions", "questions", lambda value: f"{value:.2f}"),
        row("entropy at the answer", "belief_entropy", lambda value: f"{100 * value:.0f} %"),
    ]
