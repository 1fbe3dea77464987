"""The trainer and the settings of each method: the paper's, and its baselines."""

from copy import copy
from typing import Any, TypeVar

from trl import GRPOTrainer

from .barl_config import BARLConfig
from .barl_fields import (
    LENGTH_CONTROLLED_TOKENS,
    BARLFields,
    check_method,
    refuse_unused_settings,
)
from .barl_trainer import BARLTrainer
from .baseline_trainer import BaselineTrainer
from .unused_settings import unused_settings

Settings = TypeVar("Settings", bound=BARLConfig)


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
        trainer = BaselineTrainer(args=args, **kwargs)
        trainer._say_once("unused", unused_settings(args, is_grpo=True))
        return trainer
    return BARLTrainer(args=args, **kwargs)


def method_settings(method: str, args: Settings) -> Settings:
    """Return the settings with what a method changes in them.

    Raises:
        ValueError: `method` is unknown, or contradicts the settings.
    """
    check_method(method)
    if args.credit not in ("barl", method) and method != "barl":
        raise ValueError(
            f"credit must be left out with method={method!r}, got {args.credit!r}: the method says "
            "it."
        )
    args = copy(args)
    if method == "grpo_length_controlled":
        most: Any = args.max_completion_length
        args.max_completion_length = min(most or LENGTH_CONTROLLED_TOKENS, LENGTH_CONTROLLED_TOKENS)
    elif method not in ("barl", "grpo"):
        args.credit = method
        BARLFields.__post_init__(args)
    if method == "barl":
        refuse_unused_settings(args)
    return args
