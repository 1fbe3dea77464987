"""`BARLConfig`: TRL's `GRPOConfig` with BARL's fields, and what it refuses."""

import math
import warnings
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from transformers.trainer_pt_utils import AcceleratorConfig
from trl import GRPOConfig

from .barl_fields import BARLFields, check_at_least_one
from .batch_sizes import BatchSettings
from .contract import check_versions
from .redaction import RedactedArguments
from .trl_settings import BATCH_FIELDS, batch_settings, refuse_trl_settings

# TRL 1.16 sets gradient_checkpointing, which transformers 5.19 renamed
warnings.filterwarnings("ignore", ".*gradient_checkpointing.*is deprecated", FutureWarning)


@dataclass(repr=False)
class BARLConfig(RedactedArguments, BARLFields, GRPOConfig):
    r"""Configuration class for the [`BARLTrainer`].

    This class includes only the parameters that are specific to BARL training, and two defaults
    that differ from [`~trl.GRPOConfig`]: completions are as long as in the paper, and vLLM's
    importance ratio is truncated per token, as the weights are. Each field's meaning stands in its
    `metadata["help"]` (`barl train --help`, docs/settings.md).

    Raises:
        ValueError: A field breaks its rule, a setting of TRL's contradicts BARL, or batches do not
            divide.
        ImportError: TRL or transformers lacks what BARL relies on.
    """

    def __new__(cls, *args, **kwargs):
        """Refuse fields that there are not, with the nearest one's name."""
        names = [field.name for field in fields(cls) if field.init]
        for name in kwargs.keys() - names:
            near = get_close_matches(name, names, n=1, cutoff=0.5) or names[:1]
            raise TypeError(
                f"{cls.__name__} must get fields that it has, got {name!r}: did you mean "
                f"{near[0]!r}?"
            )
        return super().__new__(cls)

    def __post_init__(self):
        check_versions()  # every trainer has a configuration first
        BARLFields.__post_init__(self)
        refuse_trl_settings(vars(self))
        for name in BATCH_FIELDS:
            default = type(self).__dataclass_fields__[name].default
            check_at_least_one(name, getattr(self, name), default)
        if self.enable_jit_checkpoint:
            raise ValueError(
                "enable_jit_checkpoint must be False, got True: it saves in the middle of a step, "
                "from which a run cannot go on exactly. `barl train --save_on_interrupt true` ends "
                "the step first."
            )
        self._divide_batches()
        GRPOConfig.__post_init__(self)
        self._warn_of_biased_correction()

    def _divide_batches(self):
        """Set TRL's batch fields from BARL's two, and refuse batches that do not divide."""
        for name, follows, default in (
            ("prompts_per_rollout_batch", "generation_batch_size", None),
            ("prompts_per_rollout_batch", "steps_per_generation", None),
            ("rollouts_per_optimizer_step", "gradient_accumulation_steps", 1),
        ):
            if getattr(self, name) is not None and getattr(self, follows) != default:
                raise ValueError(
                    f"{follows} must be left out with {name}={getattr(self, name)}, got "
                    f"{getattr(self, follows)}: it follows from {name}."
                )
        # `device` makes the distributed state, which knows the number of processes; where the
        # accelerator's configuration says that the state was made before, it must be heard first
        if isinstance(self.accelerator_config, dict):
            accelerator_config: Any = AcceleratorConfig(**self.accelerator_config)
            self.accelerator_config = accelerator_config
        _ = self.device
        batches = self.batch_settings()
        if (broken := batches.broken_rule()) is not None:
            raise ValueError(str(broken))
        if self.prompts_per_rollout_batch is not None:
            self.generation_batch_size = batches.rollouts
        self.gradient_accumulation_steps = batches.accumulation

    def batch_settings(self) -> BatchSettings:
        """Return the settings that decide the sizes of batches."""
        return batch_settings(vars(self), num_processes=self.world_size)

    def _warn_of_biased_correction(self):
        """Warn of sampling from a part of the vocabulary.

        vLLM's log-probabilities are those of what it samples from, the trainer's those of the whole
        vocabulary.
        """
        neutral = {"top_p": [1], "top_k": [0, -1], "min_p": [None, 0], "repetition_penalty": [1]}
        values = {name: getattr(self, name) for name in neutral}
        biased = [f"{n}={value}" for n, value in values.items() if value not in neutral[n]]
        if biased and self.use_vllm and self.vllm_importance_sampling_correction:
            warnings.warn(
                f"{', '.join(biased)}: vLLM samples from another distribution than the trainer "
                "scores, so that the importance ratio is biased. Leave this at its default, or set "
                "vllm_importance_sampling_correction=False.",
                stacklevel=4,
            )

    def warn_of_whole_completions(self):
        """Warn of steps that are as long as completions."""
        most = self.max_completion_length
        if most and self.step_size >= most and self.own_credit.hypotheses != "none":
            warnings.warn(
                f"step_size={self.step_size} is not less than max_completion_length={most}: every "
                "completion is one step, and all of its tokens have one weight, as in plain RL. "
                "Make steps shorter, or set credit='grpo'.",
                stacklevel=4,
            )

    def warn_of_hidden_outcome(self):
        """Warn of weights that can hide the outcome, with what was measured."""
        if self.outcome_mode == "hypothesis":
            warnings.warn(
                "outcome_mode='hypothesis': on the demo's model the outcome explains 11 % of these "
                "weights inside prompts, and 99 % with 'ground_truth'. Under a confidently wrong "
                "belief they teach the wrong answer (docs/credit.md).",
                stacklevel=4,
            )
        is_sum = self.own_credit.answer_likelihood == "sum"
        if self.credit == "barl" and is_sum and self.consistency_beta < math.inf:
            warnings.warn(
                "answer_likelihood='sum': under a confidently wrong belief the gradient of a batch "
                "has the cosine .50 with the policy gradient, .75 with 'mean'. "
                "consistency_beta=inf has .89 (docs/credit.md).",
                stacklevel=4,
            )
