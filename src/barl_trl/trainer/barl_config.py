"""`BARLConfig`: TRL's `GRPOConfig` with BARL's fields, and what it refuses."""

import math
import warnings
from dataclasses import dataclass
from typing import Any

from transformers.trainer_pt_utils import AcceleratorConfig
from trl import GRPOConfig

from .barl_fields import BARLFields
from .checks.batch_sizes import BatchSettings
from .checks.contract import check_versions
from .checks.settings import TRL_RULES, batch_settings, refuse_broken
from .hub import RedactedArguments

# TRL 1.16 sets gradient_checkpointing, which transformers 5.19 renamed
warnings.filterwarnings("ignore", ".*gradient_checkpointing.*is deprecated", FutureWarning)


@dataclass(repr=False)
class BARLConfig(RedactedArguments, BARLFields, GRPOConfig):
    r"""Configuration class for the [`BARLTrainer`].

    This class includes only the parameters that are specific to BARL training, and two defaults
    that differ from [`~trl.GRPOConfig`]: completions are as long as in the paper, and vLLM's
    importance ratio is truncated per token, because BARL's weights are per token. The
    `metadata["help"]` of each field says what it means; `barl train --help` and docs/settings.md
    show it.

    Raises:
        TypeError: There is no field of a given name.
        ValueError: A field breaks its rule, a setting of TRL's contradicts BARL, or the batch sizes
            do not divide.
        ImportError: TRL or transformers lacks what BARL relies on.
    """

    def __post_init__(self):
        check_versions()  # every trainer has a configuration first
        BARLFields.__post_init__(self)
        refuse_broken(TRL_RULES, self)
        self._divide_batches()
        GRPOConfig.__post_init__(self)
        self._warn_of_biased_correction()

    def _divide_batches(self):
        """Set TRL's batch fields from BARL's two batch fields."""
        # `device` makes the distributed state, which knows the number of processes. The
        # accelerator's configuration may say that the state exists already, so it is parsed first.
        if isinstance(self.accelerator_config, dict):
            accelerator_config: Any = AcceleratorConfig(**self.accelerator_config)
            self.accelerator_config = accelerator_config
        _ = self.device
        batches = self.batch_settings()
        if self.prompts_per_rollout_batch is not None:
            self.generation_batch_size = batches.rollouts
        self.gradient_accumulation_steps = batches.accumulation

    def batch_settings(self) -> BatchSettings:
        """Return the settings that decide the sizes of batches.

        Raises:
            ValueError: The batch sizes do not divide.
        """
        return batch_settings(vars(self), num_processes=self.world_size)

    def _warn_of_biased_correction(self):
        """Warn if vLLM samples from a part of the vocabulary.

        vLLM's log-probabilities are then normalized over that part, and the trainer's over the
        whole vocabulary.
        """
        neutral = {"top_p": [1], "top_k": [0, -1], "min_p": [None, 0], "repetition_penalty": [1]}
        settings = {name: getattr(self, name) for name in neutral}
        biased = [
            f"{name}={value}" for name, value in settings.items() if value not in neutral[name]
        ]
        if biased and self.use_vllm and self.vllm_importance_sampling_correction:
            warnings.warn(
                f"{', '.join(biased)}: vLLM samples from another distribution than the trainer "
                "scores, so that the importance ratio is biased. Leave this at its default, or set "
                "vllm_importance_sampling_correction=False.",
                stacklevel=4,
            )

    def warn_of_weights(self, *, have_fixed_steps: bool):
        """Warn of settings whose weights equal those of plain RL, or can hide the outcome.

        Args:
            have_fixed_steps: Whether every step has `step_size` tokens.
        """
        most, credit = self.max_completion_length, self.own_credit
        texts = []
        if self.outcome_mode == "hypothesis":
            texts.append(
                "outcome_mode='hypothesis': on the demo's model the outcome explains 11 % of these "
                "weights inside prompts, and 99 % with 'ground_truth'. Under a confidently wrong "
                "belief they teach the wrong answer (docs/credit.md)."
            )
        is_sum = self.credit == "barl" and credit.answer_likelihood == "sum"
        if is_sum and self.consistency_beta < math.inf:
            texts.append(
                "answer_likelihood='sum': under a confidently wrong belief the gradient of a batch "
                "has the cosine .50 with the policy gradient, .75 with 'mean'. "
                "consistency_beta=inf has .89 (docs/credit.md)."
            )
        if have_fixed_steps and most and self.step_size >= most and credit.hypotheses != "none":
            texts.append(
                f"step_size={self.step_size} is not less than max_completion_length={most}: every "
                "completion is one step, and all of its tokens have one weight, as in plain RL. "
                "Make steps shorter, or set credit='grpo', the outcome relative to the group's."
            )
        for text in texts:
            warnings.warn(text, stacklevel=4)
