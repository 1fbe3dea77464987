"""`barl plan`: what a recipe will do, before anything is loaded.

The same recipe and options as `barl train`. Of the model only its `config.json` is read. Any
machine will do: the plan is that of the `num_processes` devices which are to train.
"""

from ..trainer.barl_fields import BARLFields
from .console import mistakes_in_one_line
from .options import parse_options
from .plan_arguments import PlanFields
from .train_arguments import BARLScriptArguments, check_recipe


def main(argv: list[str]) -> None:
    """Parse a recipe and options as `barl train`, and print what they mean."""
    with mistakes_in_one_line("barl plan"):
        first = (PlanFields, BARLScriptArguments, BARLFields)
        script_args, args, model_args = parse_options("barl plan", argv, first, _all_arguments)
        check_recipe(script_args, args, model_args)
        from ..trainer.methods import method_settings
        from .plan_tables import print_plan

        print_plan(script_args, method_settings(script_args.method, args), model_args)


def _all_arguments():
    from trl import ModelConfig

    from .plan_config import PlanConfig

    return BARLScriptArguments, PlanConfig, ModelConfig
