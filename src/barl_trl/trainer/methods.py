"""The trainer of each method: the paper's method and its baselines."""

from typing import Any

from trl import GRPOTrainer

from .barl_config import BARLConfig
from .barl_fields import method_settings
from .barl_trainer import BARLTrainer
from .baseline_trainer import BaselineTrainer
from .checks.arguments import check_shared_arguments


def make_trainer(method: str, *, args: BARLConfig, **kwargs: Any) -> GRPOTrainer:
    """Make the trainer of a method, on otherwise equal settings.

    Args:
        method: `"barl"` makes a [`BARLTrainer`] with `args.credit`. The name or the dotted path of
            another credit makes a [`BARLTrainer`] with that credit. `"grpo"` and
            `"grpo_length_controlled"` make a [`BaselineTrainer`], which trains as TRL does.
        args: The settings. `"grpo_length_controlled"` lowers a longer `max_completion_length` to 32
            tokens.
        **kwargs: Arguments of [`BARLTrainer`]. Those that only BARL takes are not passed to GRPO.

    Raises:
        ValueError: `method` is unknown, or contradicts `args.credit`.
    """
    args = method_settings(method, args)
    if method.startswith("grpo"):
        only_barl = ("answer_extractor", "answer_equivalence", "step_segmenter")
        only_barl += ("observation_likelihood", "hypothesis_rewards", "outcome_under")
        kwargs = {name: value for name, value in kwargs.items() if name not in only_barl}
        check_shared_arguments(args, **kwargs)
        trainer = BaselineTrainer(args=args, **kwargs)
        trainer._say_once("unused", args.unused(is_grpo=True))
        return trainer
    return BARLTrainer(args=args, **kwargs)
