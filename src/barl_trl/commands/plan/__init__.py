"""`barl plan`: what a recipe will do, before anything is loaded.

It takes the recipe and options of `barl train`, and reads only the model's `config.json`. It runs
on any machine: the plan is for `num_processes` devices, whatever this machine has.
"""

from dataclasses import dataclass

from ...trainer.barl_fields import BARLFields, method_settings, option
from ...trainer.checks.settings import TRL_RULES, refuse_broken
from ..shell.console import mistakes_in_one_line
from ..shell.options import parse_early, parse_options
from ..train.arguments import TRL, BARLScriptArguments, check_recipe, given_settings
from ..train.launching import LaunchFields


@dataclass
class PlanFields(LaunchFields):
    """The arguments of `barl plan` beside those of `barl train`."""

    num_train_rows: int | None = option(None, "Rows of the dataset: says how long an epoch is.")


def main(argv: list[str]) -> None:
    """Parse a recipe and options as `barl train`, and print what they mean."""
    with mistakes_in_one_line("barl plan"):
        first = (PlanFields, BARLScriptArguments, BARLFields)
        early = parse_early("barl plan", argv, first, trl=TRL)
        if early:
            _, script_args, barl_fields, trl_fields = early
            settings = given_settings(barl_fields, trl_fields)
            check_recipe(script_args, settings)
            refuse_broken(TRL_RULES, settings)
        # imported late: TRL and torch take seconds
        from trl import ModelConfig

        from .planned_run import PlanConfig
        from .table import print_plan

        kinds = (BARLScriptArguments, PlanConfig, ModelConfig)
        script_args, args, model_args = parse_options("barl plan", argv, kinds)
        check_recipe(script_args, args, model_args)

        print_plan(script_args, method_settings(script_args.method, args), model_args)
