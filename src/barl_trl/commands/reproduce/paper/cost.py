"""What the experiments cost, estimated before they start."""

from collections.abc import Sequence
from typing import Any

from trl import ModelConfig, TrlParser

from ....trainer.barl_fields import method_settings
from ...plan.planned_run import PlanConfig, Shape
from ...shell.console import print_note, print_table
from ...train.arguments import BARLScriptArguments
from .commands import BASE, RECIPES
from .scales import Model, Scale

FLOPS = 0.2 * 989e12
"""Floating-point operations per second that are assumed of a GPU: a fifth of an H100's peak in
bfloat16 (NVIDIA's data sheet), generation included."""

RESPONSES = 7
"""Responses of each run to each problem: the greedy one and six samples."""


def gpu_hours(scale: Scale, model: Model, arm: str | None) -> tuple[float, float]:
    """Estimate the GPU hours of one run, with all completions as long as they may be.

    A token takes 2 operations per parameter where it is generated, scored, or fed to a reference
    model, and 8 where it is trained on (6, and 2 to compute activations again).

    Args:
        scale: What is run.
        model: The model.
        arm: The arm; None: the base model, which is only evaluated.

    Returns:
        Hours of training and of evaluation.
    """
    problems = sum(scale.num_problems.values())
    most = scale.evaluate[scale.evaluate.index("--max_tokens") + 1]
    evaluated = problems * RESPONSES * int(most)
    if arm is None:
        return 0.0, _hours(model, 2 * evaluated)
    arguments: Any = (BARLScriptArguments, PlanConfig, ModelConfig)
    options = ["--config", str(RECIPES / f"{model.recipe}.yaml"), "--method", arm]
    options += ["--dataset_name", "given", *scale.train, *scale.arm_options.get(arm, [])]
    options += ["--num_processes", "8"] * bool(scale.launcher)
    script_args, args, _ = TrlParser(arguments).parse_args_and_config(options)
    args = method_settings(arm, args)
    batches, shape = args.batch_settings(), Shape.of(script_args, args)
    steps: Any = args.total_steps()
    scored = shape.batch_tokens(batches, args.scoring_method) if shape.hypotheses else 0
    generated = batches.rollouts * shape.completion
    trained = batches.rollouts * (shape.prompt + shape.completion) * args.num_iterations
    referred = trained if args.beta else 0
    # evaluations during training
    evaluated += steps[0] // args.eval_steps * problems * shape.completion
    operations = 2 * (generated + scored + referred) + 8 * trained
    return _hours(model, steps[1] * operations), _hours(model, 2 * evaluated)


def _hours(model: Model, operations_per_parameter: float) -> float:
    return operations_per_parameter * 1e9 * model.billions / FLOPS / 3600


def print_cost(scale: Scale, seeds: Sequence[int]) -> None:
    """Print what training and evaluation cost."""
    rows, total = [], 0.0
    for model in scale.models:
        for arm in (None, *model.arms):
            runs = len(seeds) if arm else 1
            training, evaluation = (runs * part for part in gpu_hours(scale, model, arm))
            total += training + evaluation
            numbers = {"training": f"{training:,.1f}", "evaluation": f"{evaluation:,.1f}"}
            rows.append({"model": model.name, "arm": arm or BASE, "runs": str(runs)} | numbers)
    print_table("GPU hours, estimated", rows)
    print_note(
        f"Together {total:,.0f} GPU hours, for H100s that reach {FLOPS / 1e12:.0f} TFLOP/s, with "
        "every completion as long as it may be. Loading, saving and waiting are not counted."
    )
