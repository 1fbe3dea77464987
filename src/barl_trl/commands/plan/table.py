"""`barl plan` as a table: what a rollout batch holds, and what lies in a device's memory."""

from collections.abc import Iterator
from typing import Any

import torch
from rich.table import Table
from transformers import AutoConfig, PreTrainedConfig
from trl import ModelConfig, get_peft_config

from ...plausibility.budget import CPU_TOKENS, MAX_TOKENS, scoring_bytes
from ...trainer import BARLConfig
from ..shell.console import plain_console, print_note
from ..train.arguments import BARLScriptArguments
from .memory import Passes, count_parameters, optimizer_bytes, peaks
from .planned_run import ANSWER_TOKENS, ELICITATION_TOKENS, PlanConfig, Shape

_LIBRARIES = 0.5 * 2**30
"""Python with torch, transformers, TRL and datasets, on a CPU: 0.48 GiB before the first step."""

_SAMPLING = 3
"""Copies of the logits of a token, in 32 bits, while it is sampled."""


def _batch_rows(args: PlanConfig, shape: Shape) -> Iterator[tuple[str, str]]:
    """Yield the rows of the rollout batch, (name, text): its rollouts, steps and tokens."""
    batches = args.batch_settings()
    size, group, processes = batches.rollouts, batches.num_generations, batches.num_processes
    prompts, micro_steps = size // group, size // batches.rollouts_at_once
    yield "rollout batch", f"{prompts:,} prompts x {group} rollouts = {size:,}"
    micro_batch = batches.per_device_train_batch_size
    yield (
        "on each process",
        f"{size // processes:,} rollouts = {micro_steps:,} micro-batches of {micro_batch}",
    )
    split = prompts - batches.group_parts()[group]
    whole = "on one process each"
    yield "groups", f"{split:,} of {prompts:,} straddle processes" if split else whole
    steps = batches.optimizer_steps(args.num_iterations)
    step = batches.rollouts_at_once * batches.accumulation
    yield "optimizer steps on it", f"{float(steps):,.4g}"
    yield (
        "rollouts of each step",
        f"{processes} processes x {batches.accumulation} micro-batches x {micro_batch} = {step:,}",
    )
    if steps.denominator > 1:
        fitting = " or ".join(map(str, batches.whole_accumulations(args.num_iterations)))
        yield "for whole steps", f"gradient_accumulation_steps = {fitting}"
    yield "tokens generated, at most", f"{size * shape.completion:,}"
    if shape.hypotheses:
        tokens = shape.batch_tokens(batches, args.scoring_method)
        yield "tokens scored, at most", f"{tokens:,} = {tokens / size:,.0f} per rollout"
    run = args.total_steps()
    if run is None:
        yield "the run", "unknown: no max_steps, no --num_train_rows"
    else:
        yield "the run", f"{run[0]:,} optimizer steps on {run[1]:,} rollout batches"


def _memory_rows(
    args: PlanConfig, model_args: ModelConfig, config: PreTrainedConfig, shape: Shape
) -> Iterator[tuple[str, str]]:
    """Yield the rows of a device's memory, (name, text): what lies in it, and its peak."""
    peft_config: Any = get_peft_config(model_args)
    total, trained, frozen_linear = count_parameters(config, peft_config)
    held_in, computes_in, trained_in = _dtypes(args, model_args, config)
    not_trained = total - trained, frozen_linear
    sizes = _sizes_throughout(args, model_args, trained, not_trained, held_in, trained_in)
    phases: dict[str, dict[str, float]] = {"update": {"gradients": sizes.pop("gradients")}}
    phases["scoring"] = {}
    batches, unknown = args.batch_settings(), args.sharding.unknown
    faults = [unknown] if unknown else []
    passes = Passes(
        batches.per_device_train_batch_size,
        0 if args.use_vllm else batches.rollouts // batches.num_processes,
        shape.prompt,
        shape.completion,
        accumulates=batches.accumulation > 1,
        checkpointing=args.gradient_checkpointing,
        dtype=held_in,
        autocast=None if computes_in == held_in else computes_in,
        on_cpu=args.use_cpu,
    )
    try:
        # the others keep no matrices of scores, and may not be installed here
        attention = "eager" if model_args.attn_implementation == "eager" else None
        update, cache = peaks(config, passes, peft_config, attention=attention)
    except Exception as error:  # a forward pass may raise anything on tensors without numbers
        faults.append(f"activations, keys and values ({type(error).__name__})")
    else:
        activations = max(0, update - trained * trained_in.itemsize)
        phases["update"][f"activations, {passes.rows:,} rollouts"] = activations
        if generated := passes.generated:
            kept = {f"keys and values, {generated:,} rollouts": cache}
            logits = _SAMPLING * 4 * generated * config.get_text_config().vocab_size
            phases["generation"] = {**kept, "logits of a token": logits}
            phases["scoring"] |= kept
    if shape.hypotheses:
        in_all = shape.batch_tokens(batches, args.scoring_method) // batches.num_processes
        at_once = args.scoring_max_tokens or (CPU_TOKENS if args.use_cpu else MAX_TOKENS)
        tokens = min(in_all, at_once)
        phases["scoring"][f"scoring {tokens:,} tokens"] = scoring_bytes(config, computes_in, tokens)
    yield "trained", f"{trained / 1e6:,.0f} of {total / 1e6:,.0f} million parameters"
    parts = sizes | {name: size for phase in phases.values() for name, size in phase.items()}
    for name, size in parts.items():
        yield name, f"{size / 2**30:.1f} GiB"
    largest = max(phases, key=lambda phase: sum(phases[phase].values()))
    peak = sum(sizes.values()) + sum(phases[largest].values())
    yield "at the peak", f"{peak / 2**30:.1f} GiB, in the {largest}"
    if args.use_vllm and args.vllm_mode == "colocate":
        yield "vLLM", f"{args.vllm_gpu_memory_utilization:.0%} of the device"
    for fault in faults:
        yield "unknown", fault


def _dtypes(
    args: PlanConfig, model_args: ModelConfig, config: PreTrainedConfig
) -> tuple[torch.dtype, torch.dtype, torch.dtype]:
    """Return the types of the parameters, of the forward pass, and of the trained parameters."""
    is_auto = model_args.dtype in ("auto", None)
    name = str((config.dtype or "float32") if is_auto else model_args.dtype)
    dtype = getattr(torch, name.removeprefix("torch."))
    computes_in = torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else dtype
    # DeepSpeed casts the model and trains a copy in 32 bits; FSDP casts trained parameters to 32
    is_zero = args.sharding.name.startswith("ZeRO")
    held_in = computes_in if is_zero else dtype
    is_cast = args.sharding.name == "FSDP" and computes_in.itemsize < 4
    # PEFT casts adapters to 32 bits; TRL prevents it with DeepSpeed, undoes it if quantized
    is_quantized = model_args.load_in_4bit or model_args.load_in_8bit
    is_cast |= model_args.use_peft and not (is_zero or is_quantized) and held_in.itemsize < 4
    return held_in, computes_in, torch.float32 if is_cast else held_in


def _sizes_throughout(
    args: PlanConfig,
    model_args: ModelConfig,
    trained: int,
    not_trained: tuple[int, int],
    held_in: torch.dtype,
    trained_in: torch.dtype,
) -> dict[str, float]:
    """Return the bytes of what lies on a device throughout training; activations do not.

    `not_trained` counts the parameters that are not trained, and of these the weights of linear
    layers, which alone are quantized.
    """
    is_zero = args.sharding.name.startswith("ZeRO")
    quantized = 0.5 if model_args.load_in_4bit else 1 if model_args.load_in_8bit else None
    others, linear = not_trained[0] - not_trained[1], not_trained[1]
    states = optimizer_bytes(args.optim, 4 if is_zero else trained_in.itemsize) + 4 * is_zero
    frozen = others * held_in.itemsize + linear * (quantized or held_in.itemsize)
    of_stage = {  # the stage from which on a size is spread over the processes, and the size
        "parameters": (3, trained * trained_in.itemsize + frozen),
        "gradients": (2, trained * trained_in.itemsize),
        "optimizer states": (1, trained * states),
    }
    num_processes = args.batch_settings().num_processes
    sizes = {
        name: size / (num_processes if args.sharding.stage >= stage else 1)
        for name, (stage, size) in of_stage.items()
    }
    if num_processes > 1 and not args.sharding.stage:
        sizes["DDP's buckets of gradients"] = trained * trained_in.itemsize
    if args.beta and not model_args.use_peft:
        sizes["reference model"] = sizes["parameters"]
    if args.use_cpu:
        sizes["Python and its libraries"] = _LIBRARIES
    return sizes


def _read_config(model_args: ModelConfig, args: BARLConfig) -> PreTrainedConfig | None:
    """Read the model's `config.json` from its folder or the Hub; None if it cannot be had."""
    name: Any = model_args.model_name_or_path
    try:
        return AutoConfig.from_pretrained(
            name, revision=model_args.model_revision, trust_remote_code=args.trust_remote_code
        )
    except OSError:
        return None


def print_plan(script_args: BARLScriptArguments, args: PlanConfig, model_args: ModelConfig) -> None:
    """Print the rollout batch and the memory of a device as a table, and what was assumed."""
    shape = Shape.of(script_args, args)
    table = Table(title=f"{args.world_size} x {model_args.model_name_or_path}", show_header=False)
    for row in _batch_rows(args, shape):
        table.add_row(*row)
    table.add_section()
    config = _read_config(model_args, args)
    if config is None:
        table.add_row("memory", "unknown: config.json is neither here nor to be had from the Hub")
    else:
        table.add_row("memory of a device", f"estimates, {args.sharding.name}")
        for name, text in _memory_rows(args, model_args, config, shape):
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
