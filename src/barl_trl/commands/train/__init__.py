"""`barl train`: from a recipe to a trained model, with BARL or a baseline."""

import os
import sys
from pathlib import Path
from typing import Any

from ...trainer.barl_fields import BARLFields, method_settings
from ...trainer.checkpoints.output_folder import refuse_used
from ...trainer.checks.environment import refuse_missing_packages
from ...trainer.checks.settings import TRL_RULES, batch_settings, refuse_broken
from ...trainer.logging.printing import unfailing_output
from ..shell.console import mistakes_in_one_line
from ..shell.options import parse_options
from ..shell.parsers import is_first_process
from .arguments import (
    TRL,
    BARLScriptArguments,
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
    given_to_trl: dict[str, Any] = {}

    def check(script_args: BARLScriptArguments, barl_fields: Any, trl_fields: Any) -> None:
        given_to_trl.update(vars(trl_fields))
        settings = given_settings(barl_fields, trl_fields)
        check_recipe(script_args, settings)
        check_names(script_args)
        refuse_broken(TRL_RULES, settings)
        batch_settings(vars(settings), num_processes=int(os.environ.get("WORLD_SIZE", 1)))
        refuse_missing_packages(settings)
        method_settings(script_args.method, barl_fields)
        is_new = not (settings.resume_from_checkpoint or settings.overwrite_output_dir)
        if is_new and settings.output_dir is not None:
            refuse_used(Path(settings.output_dir))

    with mistakes_in_one_line("barl train", are_everywhere=True, path_or_id="dataset_name"):
        parsed = parse_options(
            *("barl train", argv, first, _all_arguments, _without_gpu), trl=TRL, check=check
        )
    if _without_gpu() and is_first_process():
        _, args, model_args = parsed
        why = "" if given_to_trl.get("use_cpu") else "no GPU was found, so "
        autocast = "bfloat16" if args.bf16 else "float16" if args.fp16 else None
        dtype = "its own dtype" if model_args.dtype in ("auto", None) else model_args.dtype
        print(
            f"barl train: {why}the model is trained on the CPU in {autocast or dtype} "
            f"(--use_cpu {args.use_cpu} --bf16 {args.bf16}).",
            file=sys.stderr,
        )
    from .run import run_in_process_group

    with unfailing_output():
        run_in_process_group(*parsed)


def _all_arguments():
    from trl import ModelConfig

    from ...trainer import BARLConfig

    return BARLScriptArguments, BARLConfig, ModelConfig


def _without_gpu() -> dict[str, Any]:
    """Return the defaults that replace TRL's where there is no accelerator; bfloat16 would fail."""
    import torch

    return {} if torch.accelerator.is_available() else {"use_cpu": True, "bf16": False}
