"""What the experiments cost, estimated before they start."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from trl import ModelConfig, TrlParser

from ..plan import PlanConfig, Shape, batch_tokens, total_steps
from ..train import arm_settings
from ..train_arguments import BARLScriptArguments, Method
from .commands import RECIPES
from .scales import Model, Scale

FLOPS = 0.2 * 989e12
"""Floating-point operations per second that are assumed of a GPU: a fifth of an H100's peak in
bfloat16 (NVIDIA's data sheet), generation included."""


def gpu_hours(scale: Scale, model: Model, arm: Method) -> float:
    """What the training of an arm costs at most: every completion as long as it may be.

    Per token and parameter 2 operations to generate, to score and for a reference model, 8 to train
    on (6, and 2 to compute activations again).
    """
    arguments: Any = (BARLScriptArguments, PlanConfig, ModelConfig)
    options = ["--config", str(RECIPES / f"{model.recipe}.yaml"), "--method", arm]
    options += ["--dataset_name", "given", *scale.train, *scale.arm_options.get(arm, [])]
    options += ["--num_processes", "8"] * bool(scale.launcher)
    script_args, args, _ = TrlParser(arguments).parse_args_and_config(options)
    args = arm_settings(arm, args)
    batches, shape = args.batch_settings(), Shape.of(script_args, args)
    steps: Any = total_steps(args, batches)
    scored = batch_tokens(batches, shape, args.scoring_method) if shape.hypotheses else 0
    generated = batches.rollouts * shape.completion
    trained = batches.rollouts * (shape.prompt + shape.completion) * args.num_iterations
    referred = trained if args.beta else 0
    operations = (2 * (generated + scored + referred) + 8 * trained) * 1e9 * model.billions
    return steps[1] * operations / FLOPS / 3600


def show_cost(scale: Scale, seeds: Sequence[int], console: Console) -> None:
    """Prints what the trainings cost."""
    table = Table("model", "arm", "runs", "GPU hours, at most", title="Training")
    total = 0.0
    for model in scale.models:
        for arm in model.arms:
            hours = len(seeds) * gpu_hours(scale, model, arm)
            total += hours
            table.add_row(model.name, arm, str(len(seeds)), f"{hours:,.1f}")
    console.print(table)
    console.print(
        f"Together {total:,.1f} GPU hours, estimated for H100s that reach {FLOPS / 1e12:.0f} "
        f"TFLOP/s and completions of full length; then {scale.named() or 'no benchmarks'}, greedy "
        "and six samples, for each run.",
        highlight=False,
    )
