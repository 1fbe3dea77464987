"""The trainer and the settings of each method: the paper's, and its baselines."""

from copy import copy
from typing import Any, TypeVar, get_args

from trl import GRPOTrainer

from .barl_config import BARLConfig
from .barl_fields import LENGTH_CONTROLLED_TOKENS, Method
from .barl_trainer import BARLTrainer
from .benchmark_evaluation import BenchmarkEvaluationMixin
from .exact_resume import ExactResumeMixin
from .gradient_noise import GradientNoiseMixin
from .hub import HubMixin

Settings = TypeVar("Settings", bound=BARLConfig)


class BaselineTrainer(
    GradientNoiseMixin, HubMixin, BenchmarkEvaluationMixin, ExactResumeMixin, GRPOTrainer
):
    """[`~trl.GRPOTrainer`] with everything of [`BARLTrainer`] that is not BARL's."""


def make_trainer(method: Method, *, args: BARLConfig, **kwargs) -> GRPOTrainer:
    """Make the trainer of a method, on otherwise equal settings.

    Args:
        method: `"barl"`, `"progress"`, `"grpo"` or `"grpo_length_controlled"`.
        args: The settings; `"progress"` sets `hypotheses="truth"`, the last one
            `max_completion_length=32` where it is more.
        **kwargs: As in [`BARLTrainer`]. What only BARL takes is not passed to GRPO.

    Raises:
        ValueError: `method` is unknown.
    """
    args = method_settings(method, args)
    if method.startswith("grpo"):
        only_barl = ("answer_extractor", "answer_equivalence", "step_segmenter")
        kwargs = {name: value for name, value in kwargs.items() if name not in only_barl}
        return BaselineTrainer(args=args, **kwargs)
    return BARLTrainer(args=args, **kwargs)


def method_settings(method: Method, args: Settings) -> Settings:
    """Return the settings with what a method changes in them.

    Raises:
        ValueError: `method` is unknown, or contradicts the settings.
    """
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {list(get_args(Method))}, got {method!r}.")
    args = copy(args)
    if method == "progress":
        if args.outcome_mode != "ground_truth":
            raise ValueError(
                "outcome_mode must be 'ground_truth' with method='progress', got "
                f"{args.outcome_mode!r}: there are no other hypotheses."
            )
        args.hypotheses = "truth"
    if method == "grpo_length_controlled":
        most: Any = args.max_completion_length
        args.max_completion_length = min(most or LENGTH_CONTROLLED_TOKENS, LENGTH_CONTROLLED_TOKENS)
    return args
