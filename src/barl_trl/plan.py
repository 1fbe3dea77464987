"""`barl plan`: what a recipe will do, before anything is loaded.

The same recipe and options as `barl train`; of the model only its `config.json` is read. Any
machine will do: the plan is that of the `num_processes` devices which are to train.
"""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from accelerate import DistributedType
from accelerate.commands.config.config_args import load_config_from_file
from rich.console import Console
from rich.table import Table
from transformers import AutoConfig, PreTrainedConfig
from trl import ModelConfig, TrlParser, get_peft_config

from .batches import BatchSettings
from .config import BARLConfig
from .memory import (
    CPU_TOKENS,
    MAX_TOKENS,
    count_parameters,
    optimizer_bytes,
    scoring_bytes,
    training_bytes,
)
from .packing import reencoded_rows, shared_prefix_rows
from .rollouts import Answer, Rollout
from .train import arm_settings, refuse_recipe
from .train_arguments import BARLScriptArguments

PROMPT_TOKENS, COMPLETION_TOKENS = 512, 1024
"""The paper's, where a recipe sets no limits."""

ELICITATION_TOKENS, ANSWER_TOKENS = 12, 8
"""Of the default elicitation, and of an answer with its braces and dot."""


@dataclass
class PlanConfig(BARLConfig):
    """The settings of a run that starts elsewhere: no device of this machine is asked for."""

    num_processes: int | None = field(
        default=None,
        metadata={
            "help": "Processes that train, one for each device. Default: `accelerate_config`'s, or "
            "else 1."
        },
    )
    accelerate_config: str | None = field(
        default=None,
        metadata={"help": "What `accelerate launch --config_file` will get: says what is sharded."},
    )
    num_train_rows: int | None = field(
        default=None, metadata={"help": "Rows of the dataset: says how long an epoch is."}
    )

    def __post_init__(self):
        file = self.accelerate_config
        cluster: Any = load_config_from_file(file) if file is not None else None
        self.sharding = Sharding.of(cluster) if cluster else Sharding()
        if self.deepspeed or self.fsdp:
            unknown = "deepspeed and fsdp of a recipe: give --accelerate_config"
            self.sharding = self.sharding._replace(unknown=unknown)
        if self.num_processes is None:
            self.num_processes = cluster.num_processes if cluster else 1
        for name in ("num_processes", "num_train_rows"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        here = {"use_cpu": True, "tf32": None, "torch_compile": False, "deepspeed": None}
        there = {name: getattr(self, name) for name in here}
        vars(self).update(here)
        super().__post_init__()
        vars(self).update(there)

    @property
    def world_size(self):
        """The number of processes to plan for."""
        return self.num_processes


class Sharding(NamedTuple):
    """What is spread over the processes: ZeRO's stages, and FSDP as the third.

    Args:
        name: What it is.
        stage: See [`training_bytes`].
        unknown: What the estimate leaves out.
    """

    name: str = "a copy of the model on each"
    stage: int = 0
    unknown: str | None = None

    @classmethod
    def of(cls, cluster: Any) -> "Sharding":
        """As an accelerate configuration says."""
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
    """Tokens of a prompt and of a completion at most, of a step, and hypotheses of a prompt."""

    prompt: int
    completion: int
    step: int
    hypotheses: int

    @classmethod
    def of(cls, script_args: BARLScriptArguments, args: BARLConfig) -> "Shape":
        """As a recipe bounds them; without hypotheses where nothing is scored."""
        group = args.batch_settings().num_generations
        hypotheses = min(1 + group, args.max_hypotheses or 1 + group)
        if args.hypotheses == "truth":
            hypotheses = 1
        if script_args.method.startswith("grpo"):
            hypotheses = 0
        prompt = script_args.max_prompt_length or PROMPT_TOKENS
        completion = args.max_completion_length or COMPLETION_TOKENS
        return cls(prompt, completion, args.step_size, hypotheses)


def scored_tokens(num_rollouts: int, shape: Shape, method: str = "shared_prefix") -> int:
    """Tokens fed to score that many rollouts of one prompt, of full length, at most.

    The answers share their opening brace and no other token, the rollouts the branch of their first
    state, but not the prompt: what more is shared is saved.
    """
    length = shape.prompt + shape.completion
    answers = [
        Answer([0, *[1 + n] * (ANSWER_TOKENS - 1)], score_from=1) for n in range(shape.hypotheses)
    ]
    states = [*range(shape.prompt, length, shape.step), length]
    rollouts = [Rollout([0] * length, states, answers)] * num_rollouts
    pack = shared_prefix_rows if method == "shared_prefix" else reencoded_rows
    return sum(len(row.token_ids) for row in pack(rollouts, [0] * ELICITATION_TOKENS))


def total_steps(args: PlanConfig, batches: BatchSettings) -> tuple[int, int] | None:
    """Optimizer steps and rollout batches of the whole run, if they follow from the settings.

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
    """Tokens fed to score a rollout batch, at most; groups that straddle processes share less."""
    parts = batches.group_parts().items()
    return sum(times * scored_tokens(size, shape, method) for size, times in parts)


def batch_rows(args: PlanConfig, shape: Shape) -> Iterator[tuple[str, str]]:
    """What a rollout batch holds and takes, in words."""
    batches = args.batch_settings()
    size, group, processes = batches.rollouts, batches.num_generations, batches.num_processes
    prompts, micro_steps = size // group, size // batches.micro_batch
    yield "rollout batch", f"{prompts:,} prompts x {group} rollouts = {size:,}"
    rows = batches.per_device_train_batch_size
    yield (
        "on each process",
        f"{size // processes:,} rollouts = {micro_steps:,} micro-batches of {rows}",
    )
    split = prompts - batches.group_parts()[group]
    whole = "on one process each"
    yield "groups", f"{split:,} of {prompts:,} straddle processes" if split else whole
    steps = batches.optimizer_steps(args.num_iterations)
    step = batches.micro_batch * batches.accumulation
    yield "optimizer steps on it", f"{float(steps):,.4g}"
    yield (
        "rollouts of each step",
        f"{processes} processes x {batches.accumulation} micro-batches x {rows} = {step:,}",
    )
    if steps.denominator > 1:
        fitting = " or ".join(map(str, batches.whole_accumulations(args.num_iterations)))
        yield "for whole steps", f"gradient_accumulation_steps = {fitting}"
    yield "tokens generated, at most", f"{size * shape.completion:,}"
    if shape.hypotheses:
        tokens = batch_tokens(batches, shape, args.scoring_method)
        yield "tokens scored, at most", f"{tokens:,} = {tokens / size:,.0f} per rollout"
    run = total_steps(args, batches)
    if run is None:
        yield "the run", "unknown: no max_steps, no --num_train_rows"
    else:
        yield "the run", f"{run[0]:,} optimizer steps on {run[1]:,} rollout batches"


def memory_rows(
    args: PlanConfig, model_args: ModelConfig, config: PreTrainedConfig, shape: Shape
) -> Iterator[tuple[str, str]]:
    """What lies in the memory of a device, in words."""
    batches = args.batch_settings()
    is_own = model_args.dtype in ("auto", None)
    name = str((config.dtype or "float32") if is_own else model_args.dtype)
    dtype = getattr(torch, name.removeprefix("torch."))
    computes_in = torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else dtype
    is_zero, is_fsdp = args.sharding.name.startswith("ZeRO"), args.sharding.name == "FSDP"
    # DeepSpeed casts the model and trains a copy in 32 bits; FSDP casts what is trained to those
    held_in = computes_in if is_zero else dtype
    trained_in = torch.float32 if is_fsdp and computes_in.itemsize < 4 else held_in
    states = optimizer_bytes(args.optim, 4 if is_zero else trained_in.itemsize) + 4 * is_zero
    quantized = 0.5 if model_args.load_in_4bit else 1 if model_args.load_in_8bit else None
    total, trained = count_parameters(config, get_peft_config(model_args))
    sizes = training_bytes(
        total,
        trained,
        itemsize=quantized or held_in.itemsize,
        trained_itemsize=trained_in.itemsize,
        state_bytes=states,
        stage=args.sharding.stage,
        num_processes=batches.num_processes,
    )
    if args.beta and not model_args.use_peft:
        sizes["reference model"] = sizes["parameters"]
    if shape.hypotheses:
        in_all = batch_tokens(batches, shape, args.scoring_method) // batches.num_processes
        at_once = args.scoring_max_tokens or (CPU_TOKENS if args.use_cpu else MAX_TOKENS)
        tokens = min(in_all, at_once)
        name = f"scoring {tokens:,} tokens"
        sizes[name] = scoring_bytes(config, computes_in, tokens)
    yield "trained", f"{trained / 1e6:,.0f} of {total / 1e6:,.0f} million parameters"
    for name, size in sizes.items():
        yield name, f"{size / 2**30:.1f} GiB"
    yield "together", f"{sum(sizes.values()) / 2**30:.1f} GiB"
    if args.use_vllm and args.vllm_mode == "colocate":
        yield "vLLM", f"{args.vllm_gpu_memory_utilization:.0%} of the device"
    if args.sharding.unknown:
        yield "unknown", args.sharding.unknown


def read_config(model_args: ModelConfig, args: BARLConfig) -> PreTrainedConfig | None:
    """The model's `config.json`, from its folder or the Hub; None if it cannot be had."""
    name: Any = model_args.model_name_or_path
    try:
        return AutoConfig.from_pretrained(
            name, revision=model_args.model_revision, trust_remote_code=args.trust_remote_code
        )
    except OSError:
        return None


def show(
    script_args: BARLScriptArguments, args: PlanConfig, model_args: ModelConfig, console: Console
) -> None:
    """Prints the plan."""
    shape = Shape.of(script_args, args)
    table = Table(title=f"{args.world_size} x {model_args.model_name_or_path}", show_header=False)
    for row in batch_rows(args, shape):
        table.add_row(*row)
    table.add_section()
    config = read_config(model_args, args)
    if config is None:
        table.add_row("memory", "unknown: config.json is neither here nor to be had from the Hub")
    else:
        table.add_row("memory of a device", f"estimates, {args.sharding.name}")
        for name, text in memory_rows(args, model_args, config, shape):
            table.add_row(f"  {name}", text)
    console.print(table)
    assumed = f"prompts of {shape.prompt} and completions of {shape.completion} tokens"
    if shape.hypotheses:
        assumed += (
            f", {shape.hypotheses} hypotheses per prompt, {ANSWER_TOKENS} tokens per answer behind "
            f"{ELICITATION_TOKENS} of elicitation; scoring takes no more than a quarter of the "
            "memory that is free"
        )
    console.print(
        f"Assumed: {assumed}. Not counted: the activations of the update, generation, gathered "
        "parameters.",
        highlight=False,
    )


def main(argv: list[str] | None = None) -> None:
    """Parses a recipe and options as `barl train`, and [`show`]s what they mean."""
    arguments: Any = (BARLScriptArguments, PlanConfig, ModelConfig)
    parser = TrlParser(arguments, prog="barl plan")
    try:
        script_args, args, model_args = parser.parse_args_and_config(argv)
        refuse_recipe(script_args, args, model_args)
        show(script_args, arm_settings(script_args.method, args), model_args, Console())
    except (ValueError, OSError) as error:
        sys.exit(f"barl plan: {error}")


if __name__ == "__main__":
    main()
