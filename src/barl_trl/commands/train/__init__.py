"""`barl train`: from a recipe to a trained model, with BARL or a baseline."""

import os
from typing import Any

from ...trainer.barl_fields import BARLFields, method_settings
from ...trainer.checks.preparation import refuse_early
from ..shell.console import mistakes_in_one_line
from ..shell.options import parse_early, parse_options
from ..shell.parsers import is_first_process
from .arguments import (
    TRL,
    BARLScriptArguments,
    check_columns,
    check_names,
    check_recipe,
    given_settings,
)
from .launching import LaunchFields, launch_command


def main(argv: list[str]) -> None:
    """Parse a recipe (`--config FILE`) and options, then train."""
    with mistakes_in_one_line("barl train", are_everywhere=True):
        if launch := launch_command("barl train", argv):
            os.execv(launch[0], launch)
    first = (BARLScriptArguments, BARLFields)
    if {"-h", "--help"} & set(argv):
        first += (LaunchFields,)
    with mistakes_in_one_line("barl train", are_everywhere=True, path_or_id="dataset_name"):
        early = parse_early("barl train", argv, first, trl=TRL)
        if early:
            script_args, barl_fields, trl_fields = early
            settings = given_settings(barl_fields, trl_fields)
            check_recipe(script_args, settings)
            check_names(script_args)
            refuse_early(script_args.method, barl_fields, settings)
            settings.credit = method_settings(script_args.method, barl_fields).credit
            check_columns(script_args, settings)
        # imported late: TRL and torch take seconds
        from trl import ModelConfig

        from ...trainer import BARLConfig

        kinds = (BARLScriptArguments, BARLConfig, ModelConfig)
        kinds += (LaunchFields,) * ("--help-all" in argv)
        parsed = parse_options("barl train", argv, kinds, **_without_gpu())
    note = ""
    if _without_gpu() and is_first_process():
        _, args, model_args = parsed
        why = "" if early and early[-1].use_cpu else "no GPU was found, so "
        autocast = "bfloat16" if args.bf16 else "float16" if args.fp16 else None
        dtype = "its own dtype" if model_args.dtype in ("auto", None) else model_args.dtype
        note = (
            f"barl train: {why}the model is trained on the CPU in {autocast or dtype} "
            f"(--use_cpu {args.use_cpu} --bf16 {args.bf16})."
        )
    from .run import run

    run(*parsed, note=note)


def _without_gpu() -> dict[str, Any]:
    """Return the defaults that replace TRL's where there is no accelerator; bfloat16 would fail."""
    import torch

    return {} if torch.accelerator.is_available() else {"use_cpu": True, "bf16": False}
