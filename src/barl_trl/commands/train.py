"""`barl train`: from a recipe to a trained model, with BARL or a baseline."""

from ..trainer.barl_fields import BARLFields
from .options import parse_options
from .train_arguments import BARLScriptArguments


def main(argv: list[str]) -> None:
    """Parse a recipe (`--config FILE`) and options, then train."""
    first = (BARLScriptArguments, BARLFields)
    parsed = parse_options("barl train", argv, first, _all_arguments)
    from .train_run import run_in_process_group

    run_in_process_group(*parsed)


def _all_arguments():
    from trl import ModelConfig

    from ..trainer import BARLConfig

    return BARLScriptArguments, BARLConfig, ModelConfig
