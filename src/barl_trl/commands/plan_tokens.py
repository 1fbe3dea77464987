"""How many tokens and optimizer steps a run takes, at most."""

import math
from typing import NamedTuple

from ..plausibility.queries import Answer, Rollout
from ..plausibility.rows import build_rows
from ..trainer import BARLConfig
from ..trainer.barl_fields import method_settings
from ..trainer.checks.batch_sizes import BatchSettings
from .plan_config import PlanConfig
from .train_arguments import BARLScriptArguments

PROMPT_TOKENS, COMPLETION_TOKENS = 512, 1024
"""The paper's, where a recipe sets no limits."""

ELICITATION_TOKENS, ANSWER_TOKENS = 12, 8
"""Tokens of the default elicitation, and of an answer with its braces and dot."""


class Shape(NamedTuple):
    """Tokens of a prompt and of a completion at most, of a step, and hypotheses of a prompt."""

    prompt: int
    completion: int
    step: int
    hypotheses: int

    @classmethod
    def of(cls, script_args: BARLScriptArguments, args: BARLConfig) -> "Shape":
        """Return what a recipe allows; without hypotheses where nothing is scored."""
        group = args.batch_settings().num_generations
        hypotheses = min(1 + group, args.max_hypotheses or 1 + group)
        needs = method_settings(script_args.method, args).own_credit.hypotheses
        if needs == "truth":
            hypotheses = 1
        if needs == "none" or script_args.method.startswith("grpo"):
            hypotheses = 0
        prompt = script_args.max_prompt_length or PROMPT_TOKENS
        completion = args.max_completion_length or COMPLETION_TOKENS
        return cls(prompt, completion, args.step_size, hypotheses)


def scored_tokens(num_rollouts: int, shape: Shape, method: str = "shared_prefix") -> int:
    """Count the tokens fed to score that many rollouts of one prompt, of full length, at most.

    The answers share their opening brace and no other token, the rollouts the branch of their first
    state, but not the prompt: what more is shared is saved.
    """
    length = shape.prompt + shape.completion
    answers = [
        Answer([0, *[1 + n] * (ANSWER_TOKENS - 1)], score_from=1) for n in range(shape.hypotheses)
    ]
    states = [*range(shape.prompt, length, shape.step), length]
    rollouts = [Rollout([0] * length, states, answers)] * num_rollouts
    layout = "masked" if method == "shared_prefix" else "plain"
    rows = build_rows(rollouts, [0] * ELICITATION_TOKENS, layout, max_tokens=0)
    return sum(len(row.token_ids) for row in rows)


def total_steps(args: PlanConfig, batches: BatchSettings) -> tuple[int, int] | None:
    """Count optimizer steps and rollout batches of the whole run, if the settings tell them.

    Raises:
        ValueError: The rows do not fill a single rollout batch: TRL would train on nothing.
    """
    per_batch = batches.optimizer_steps(args.num_iterations)
    if args.max_steps > 0:
        return args.max_steps, math.ceil(args.max_steps / per_batch)
    if args.num_train_rows is None:
        return None
    prompts = batches.rollouts // batches.num_generations
    per_epoch = args.num_train_rows // prompts  # what does not fill a rollout batch is left out
    if not per_epoch:
        raise ValueError(
            f"num_train_rows must be at least {prompts}, the prompts of a rollout batch, got "
            f"{args.num_train_rows}: lower prompts_per_rollout_batch or generation_batch_size."
        )
    steps = math.ceil(args.num_train_epochs * math.ceil(per_epoch * per_batch))
    return steps, math.ceil(steps / per_batch)


def batch_tokens(batches: BatchSettings, shape: Shape, method: str) -> int:
    """Count the tokens fed to score a rollout batch; groups that straddle processes share less."""
    parts = batches.group_parts().items()
    return sum(times * scored_tokens(size, shape, method) for size, times in parts)
