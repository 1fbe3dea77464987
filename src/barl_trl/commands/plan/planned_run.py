"""The run that `barl plan` foresees: settings and tokens."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from accelerate import DistributedType
from accelerate.commands.config.config_args import load_config_from_file

from ...plausibility.queries import Answer, Rollout
from ...plausibility.rows import build_rows
from ...trainer import BARLConfig
from ...trainer.barl_fields import method_settings
from ...trainer.checks.batch_sizes import BatchSettings
from ..recipes import file_of
from ..train.arguments import BARLScriptArguments
from . import PlanFields

_PROMPT_TOKENS, _COMPLETION_TOKENS = 512, 1024
"""The paper's most tokens of a prompt and of a completion, for a recipe that sets no limits."""

ELICITATION_TOKENS, ANSWER_TOKENS = 12, 8
"""Tokens of the default elicitation, and of an answer with its braces and dot."""


@dataclass
class PlanConfig(PlanFields, BARLConfig):
    """The settings of a run on other machines; the devices of this one do not matter."""

    def __post_init__(self):
        PlanFields.__post_init__(self)
        name = self.accelerate_config
        file = file_of("accelerate_config", name) if name is not None else None
        cluster: Any = load_config_from_file(str(file)) if file is not None else None
        self.sharding = _Sharding.of(cluster) if cluster else _Sharding()
        if self.deepspeed or self.fsdp:
            unknown = "deepspeed and fsdp of a recipe: give --accelerate_config"
            self.sharding = self.sharding._replace(unknown=unknown)
        if self.num_processes is None:
            self.num_processes = cluster.num_processes if cluster else 1
        here = {"use_cpu": True, "tf32": None, "torch_compile": False, "deepspeed": None}
        there = {name: getattr(self, name) for name in here}
        vars(self).update(here)
        BARLConfig.__post_init__(self)
        vars(self).update(there)

    @property
    def world_size(self):
        """The number of processes to plan for."""
        return self.num_processes

    def total_steps(self) -> tuple[int, int] | None:
        """Count optimizer steps and rollout batches of the whole run, if the settings tell them.

        Raises:
            ValueError: The rows do not fill a single rollout batch: TRL would train on nothing.
        """
        batches = self.batch_settings()
        per_batch = batches.optimizer_steps(self.num_iterations)
        if self.max_steps > 0:
            return self.max_steps, math.ceil(self.max_steps / per_batch)
        if self.num_train_rows is None:
            return None
        prompts = batches.rollouts // batches.num_generations
        per_epoch = self.num_train_rows // prompts  # what does not fill a rollout batch is left out
        if not per_epoch:
            raise ValueError(
                f"num_train_rows must be at least {prompts}, the prompts of a rollout batch, got "
                f"{self.num_train_rows}: lower prompts_per_rollout_batch or generation_batch_size."
            )
        steps = math.ceil(self.num_train_epochs * math.ceil(per_epoch * per_batch))
        return steps, math.ceil(steps / per_batch)


class _Sharding(NamedTuple):
    """What is spread over the processes: by ZeRO's stages, with FSDP as the third.

    Args:
        name: Its name in the plan.
        stage: From 1 on the optimizer's states are spread, from 2 on the gradients, from 3 on the
            parameters.
        unknown: What the estimate leaves out.
    """

    name: str = "a copy of the model on each"
    stage: int = 0
    unknown: str | None = None

    @classmethod
    def of(cls, cluster: Any) -> "_Sharding":
        """Return the sharding that an accelerate configuration asks for."""
        settings = cluster.deepspeed_config | cluster.fsdp_config
        moved = [name for name, value in settings.items() if "offload" in name]
        moved = [name for name in moved if settings[name] not in (False, None, "none")]
        unknown = f"what {' and '.join(moved)} moves away" if moved else None
        if cluster.distributed_type == DistributedType.FSDP:
            return cls("FSDP", 3, unknown)
        if cluster.distributed_type != DistributedType.DEEPSPEED:
            return cls(unknown=unknown)
        if "zero_stage" not in settings:
            unknown = "the stage: accelerate_config names no zero_stage"
        stage = int(settings.get("zero_stage", 0))
        return cls(f"ZeRO-{stage}", stage, unknown)


class Shape(NamedTuple):
    """Sizes of the largest rollout.

    Args:
        prompt: Most tokens of a prompt.
        completion: Most tokens of a completion.
        step: Tokens of a step.
        hypotheses: Most hypotheses of a prompt; 0: nothing is scored.
    """

    prompt: int
    completion: int
    step: int
    hypotheses: int

    @classmethod
    def of(cls, script_args: BARLScriptArguments, args: BARLConfig) -> "Shape":
        """Return the largest sizes that a recipe allows."""
        group = args.batch_settings().num_generations
        hypotheses = min(1 + group, args.max_hypotheses or 1 + group)
        settings = method_settings(script_args.method, args)
        if settings.own_credit.hypotheses == "truth":
            hypotheses = 1
        if not settings.scores_answers or script_args.method.startswith("grpo"):
            hypotheses = 0
        prompt = script_args.max_prompt_length or _PROMPT_TOKENS
        completion = args.max_completion_length or _COMPLETION_TOKENS
        return cls(prompt, completion, args.step_size, hypotheses)

    def batch_tokens(self, batches: BatchSettings, method: str) -> int:
        """Count the tokens fed to score a rollout batch; groups on two processes share less."""
        parts = batches.group_parts().items()
        return sum(times * self._scored_tokens(size, method) for size, times in parts)

    def _scored_tokens(self, num_rollouts: int, method: str = "shared_prefix") -> int:
        """Count the tokens fed to score that many rollouts of a prompt, of full length, at most.

        The answers share their opening brace and no other token. The rollouts share the branch of
        their first state, but not the prompt. Rollouts that share more need fewer tokens.
        """
        length = self.prompt + self.completion
        numbers = range(1, 1 + self.hypotheses)
        answers = [Answer([0, *[n] * (ANSWER_TOKENS - 1)], score_from=1) for n in numbers]
        states = [*range(self.prompt, length, self.step), length]
        rollouts = [Rollout([0] * length, states, answers)] * num_rollouts
        layout = "masked" if method == "shared_prefix" else "plain"
        rows = build_rows(rollouts, [0] * ELICITATION_TOKENS, layout, max_tokens=0)
        return sum(len(row.token_ids) for row in rows)
