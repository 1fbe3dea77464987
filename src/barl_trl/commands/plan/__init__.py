"""`barl plan`: what a recipe will do, before anything is loaded.

It takes the recipe and options of `barl train`, and reads only the model's `config.json`. It runs
on any machine: the plan is for `num_processes` devices, whatever this machine has.
"""

from dataclasses import dataclass

from ...trainer.barl_fields import BARLFields, method_settings, option
from ...trainer.checks.settings import TRL_RULES, Rule, batch_settings, refuse_broken
from ..shell.console import mistakes_in_one_line
from ..shell.options import parse_early, parse_options
from ..train.arguments import TRL, BARLScriptArguments, check_recipe, given_settings
from ..train.launching import LaunchFields

_RULES = (
    Rule("num_processes", lambda s: s.num_processes >= 1, "be at least 1", "leave it out for one"),
    Rule("num_train_rows", lambda s: s.num_train_rows >= 1, "be at least 1", "leave it out"),
)


@dataclass
class PlanFields(LaunchFields):
    """The arguments of `barl plan` beside those of `barl train`."""

    num_train_rows: int | None = option(None, "Rows of the dataset: says how long an epoch is.")

    def __post_init__(self):
        refuse_broken(_RULES, self)


def main(argv: list[str]) -> None:
    """Parse a recipe and options as `barl train`, and print what they mean."""
    with mistakes_in_one_line("barl plan"):
        first = (PlanFields, BARLScriptArguments, BARLFields)
        early = parse_early("barl plan", argv, first, trl=TRL)
        if early:
            plan_fields, script_args, barl_fields, trl_fields = early
            settings = given_settings(barl_fields, trl_fields)
            check_recipe(script_args, settings)
            refuse_broken(TRL_RULES, settings)
            if plan_fields.accelerate_config is None:  # it may say how many processes there are
                batch_settings(vars(settings), num_processes=plan_fields.num_processes or 1)
        # imported late: TRL and torch take seconds
        from trl import ModelConfig

        from .planned_run import PlanConfig
        from .table import print_plan

        kinds = (BARLScriptArguments, PlanConfig, ModelConfig)
        script_args, args, model_args = parse_options("barl plan", argv, kinds)
        check_recipe(script_args, args, model_args)

        print_plan(script_args, method_settings(script_args.method, args), model_args)
