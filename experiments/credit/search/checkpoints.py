"""Part A: gradients at the shipped model, and at checkpoints of trainings."""

from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from barl_trl.evaluation.checkpoints import checkpoint_id
from barl_trl.report.json_files import write_json

from ..arms import ARMS
from ..gradients.judge import COMPARED, Judgement, collect, verdict
from .runs import CONDITIONS, run, search_task, training_problems

SEED = 1000
"""Seed of the trainings, which no other part has. The judged problems are the next seed's."""
TRAINED = ("grpo", "belief_critic")
"""Arms whose checkpoints are judged along training."""
LATE_ARMS = (
    "grpo",
    "barl",
    "progress",
    "belief_critic",
    "belief_critic, no bootstrap",
    "belief_critic, unbiased",
)
"""Arms that are judged at the checkpoints of the trainings."""
JUDGEMENT = Judgement(batches=12, continuations=4)


def run_into(path: Path, arm: str) -> None:
    """Train an arm, and keep its checkpoints."""
    write_json(path, run("standard", arm, SEED, checkpoints=path.with_suffix("")))


def judge_into(path: Path, model: str, condition: str, arms: tuple[str, ...]) -> None:
    """Judge arms at a checkpoint, on rollouts of a condition, and write the verdict."""
    disable_progress_bar()
    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    rows = verdict(
        collect(
            AutoModelForCausalLM.from_pretrained(model),
            search_task(tokenizer, CONDITIONS[condition].tokens),
            training_problems(tokenizer, CONDITIONS[condition], SEED + 1),
            {name: ARMS[name] for name in dict.fromkeys([COMPARED, *arms])},
            JUDGEMENT,
            path.with_suffix(""),
            about={"checkpoint": checkpoint_id(model), "condition": condition},
            advance=lambda: None,
        )
    )
    write_json(path, [{"model": path.stem, **row} for row in rows])
