"""The plan as a table: what a rollout batch holds, and what lies in a device's memory."""

from collections.abc import Iterator
from typing import Any

from rich.table import Table
from transformers import AutoConfig, PreTrainedConfig
from trl import ModelConfig

from ..trainer import BARLConfig
from .console import plain_console, print_note
from .parsers import printable
from .plan_config import PlanConfig
from .plan_memory import memory_rows
from .plan_tokens import ANSWER_TOKENS, ELICITATION_TOKENS, Shape, batch_tokens, total_steps
from .train_arguments import BARLScriptArguments


def batch_rows(args: PlanConfig, shape: Shape) -> Iterator[tuple[str, str]]:
    """Yield what a rollout batch holds and takes, in words."""
    batches = args.batch_settings()
    size, group, processes = batches.rollouts, batches.num_generations, batches.num_processes
    prompts, micro_steps = size // group, size // batches.rollouts_at_once
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
    step = batches.rollouts_at_once * batches.accumulation
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


def read_config(model_args: ModelConfig, args: BARLConfig) -> PreTrainedConfig | None:
    """Read the model's `config.json` from its folder or the Hub; None if it cannot be had."""
    name: Any = model_args.model_name_or_path
    try:
        return AutoConfig.from_pretrained(
            name, revision=model_args.model_revision, trust_remote_code=args.trust_remote_code
        )
    except OSError:
        return None


def print_plan(script_args: BARLScriptArguments, args: PlanConfig, model_args: ModelConfig) -> None:
    """Print the plan."""
    shape = Shape.of(script_args, args)
    table = Table(
        title=printable(f"{args.world_size} x {model_args.model_name_or_path}"), show_header=False
    )
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
    plain_console().print(table)
    assumed = f"prompts of {shape.prompt} and completions of {shape.completion} tokens"
    if shape.hypotheses:
        assumed += (
            f", {shape.hypotheses} hypotheses per prompt, {ANSWER_TOKENS} tokens per answer after "
            f"{ELICITATION_TOKENS} of elicitation; scoring takes no more than a quarter of the "
            "memory that is free"
        )
    print_note(
        f"Assumed: {assumed}. Not counted: gathered parameters, what the allocator keeps in "
        "reserve, and on a GPU CUDA itself."
    )
