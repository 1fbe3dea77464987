"""`barl plan`: what a recipe will do, before anything is loaded.

The same recipe and options as `barl train`. Of the model only its `config.json` is read. Any
machine will do: the plan is that of the `num_processes` devices which are to train.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from ..trainer.barl_fields import BARLFields, option
from .console import mistakes_in_one_line
from .launching import LaunchFields
from .options import parse_options
from .train_arguments import BARLScriptArguments, check_recipe


@dataclass
class PlanFields(LaunchFields):
    """The arguments of `barl plan` beside those of `barl train`."""

    num_train_rows: int | None = option(None, "Rows of the dataset: says how long an epoch is.")


def main(argv: list[str]) -> None:
    """Parse a recipe and options as `barl train`, and print what they mean."""
    with mistakes_in_one_line("barl plan"):
        first = (PlanFields, BARLScriptArguments, BARLFields)
        script_args, args, model_args = parse_options(
            "barl plan",
            argv,
            first,
            _all_arguments,
            trl=("GRPOConfig", "ModelConfig"),
            check=_check,
        )
        check_recipe(script_args, args, model_args)
        from ..trainer.methods import method_settings
        from .plan_table import print_plan

        print_plan(script_args, method_settings(script_args.method, args), model_args)


def _check(_, script_args: BARLScriptArguments, barl_fields: Any, trl_options: Any) -> None:
    given = SimpleNamespace(**vars(barl_fields) | vars(trl_options))
    check_recipe(script_args, given, given)


def _all_arguments():
    from trl import ModelConfig

    from .planned_run import PlanConfig

    return BARLScriptArguments, PlanConfig, ModelConfig
