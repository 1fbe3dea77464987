"""The trainer of each method: the paper's, and its baselines."""

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
        method: `"barl"`: [`BARLTrainer`] with `args.credit`. Another credit, by name or dotted
            path: the same with that credit. `"grpo"`, `"grpo_length_controlled"`: TRL's trainer.
        args: The settings; `"grpo_length_controlled"` sets `max_completion_length=32` where it is
            more.
        **kwargs: As in [`BARLTrainer`]. What only BARL takes is not passed to GRPO.

    Raises:
        ValueError: `method` is unknown.
    """
    args = method_settings(method, args)
    if method.startswith("grpo"):
        only_barl = ("answer_extractor", "answer_equivalence", "step_segmenter")
        kwargs = {name: value for name, value in kwargs.items() if name not in only_barl}
        check_shared_arguments(args, **kwargs)
        trainer = BaselineTrainer(args=args, **kwargs)
        trainer._say_once("unused", args.unused(is_grpo=True))
        return trainer
    return BARLTrainer(args=args, **kwargs)
