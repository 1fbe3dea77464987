"""`BARLConfig`: the fields that BARL adds to TRL's `GRPOConfig`, and the settings of `GRPOConfig`
that it refuses.
"""

import warnings
from dataclasses import Field, dataclass, field, fields
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin

from transformers.trainer_pt_utils import AcceleratorConfig
from trl import GRPOConfig

from .batches import BatchSettings, why_not
from .elicitation import DEFAULT_ELICITATION
from .tested_versions import warn_outside_tested_versions

warn_outside_tested_versions()

BATCH_FIELDS = tuple(name for name in BatchSettings._fields if name != "num_processes")
AT_LEAST_ONE = ("step_size", "max_answer_chars", "max_completion_length", "scoring_max_tokens")
KINDS = {
    int: ("an integer", Integral),
    float: ("a number", Real),
    str: ("a text", str),
    type(None): ("None", type(None)),
}
"""What the types of fields are called, and what they take."""
LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo")


@dataclass
class BARLConfig(GRPOConfig):
    r"""Configuration class for the [`BARLTrainer`].

    This class includes only the parameters that are specific to BARL training, and two defaults
    that differ from [`~trl.GRPOConfig`]: completions are as long as in the paper, and vLLM's
    importance ratio is truncated per token, as the weights are. Each field's meaning stands in its
    `metadata["help"]` (`barl train --help`, README).
    """

    max_completion_length: int | None = field(
        default=1024,
        metadata={"help": "Maximum length of the generated completion (the paper's; TRL: 512)."},
    )
    vllm_importance_sampling_mode: str = field(
        default="token_truncate",
        metadata={
            "help": "How the training/sampling mismatch of vLLM is corrected (TRL: "
            "`sequence_mask`, where rounding decides about rollouts of a thousand tokens)."
        },
    )

    # Batches
    prompts_per_rollout_batch: int | None = field(
        default=None,
        metadata={
            "help": "Prompts of a rollout batch (the paper's: 1024). Sets `generation_batch_size` "
            "to so many groups."
        },
    )
    rollouts_per_optimizer_step: int | None = field(
        default=None,
        metadata={
            "help": "Rollouts of an optimizer step, of all processes (the paper's train batch "
            "size: 128; `train_batch_size` is another thing in transformers). Sets "
            "`gradient_accumulation_steps`."
        },
    )

    # Steps and states
    step_size: int = field(
        default=128,
        metadata={
            "help": "Completion tokens of one reasoning step. A `step_segmenter` of the trainer "
            "replaces it."
        },
    )
    elicitation: str = field(
        default=DEFAULT_ELICITATION,
        metadata={
            "help": "Text placed behind a state to ask for an answer; `{answer}.` follows it. An "
            "open `<think>` is closed first."
        },
    )

    # Hypotheses
    hypotheses: Literal["rollouts", "truth"] = field(
        default="rollouts",
        metadata={
            "help": "`rollouts`: the truth and the answers of the prompt's rollouts (BARL). "
            "`truth`: the truth alone (the progress-reward baseline).",
        },
    )
    solution_column: str = field(
        default="solution",
        metadata={"help": "Dataset column with the true answer: bare, boxed, or behind `####`."},
    )
    max_answer_chars: int = field(
        default=64,
        metadata={
            "help": "A rollout's answer with more characters becomes no hypothesis (released "
            "code: 20)."
        },
    )
    max_hypotheses: int | None = field(
        default=None,
        metadata={
            "help": "At most so many hypotheses per prompt, the truth included; the rarest "
            "answers are dropped."
        },
    )

    # Values
    consistency_beta: float = field(
        default=1.0,
        metadata={
            "help": "Coefficient of the reward discrepancy in the posterior, from 0 (plausibility "
            "alone) to `inf` (any discrepancy eliminates a hypothesis). The paper's beta; TRL's "
            "`beta` is the KL coefficient."
        },
    )
    answer_likelihood: Literal["mean", "sum"] = field(
        default="mean",
        metadata={
            "help": "`mean`: an answer's plausibility is the geometric mean of its token "
            "probabilities (released code). `sum`: their product (the paper's pi(y|s)).",
        },
    )
    plausibility_temperature: float = field(
        default=1.0,
        metadata={
            "help": "Temperature of the distribution that scores answers, whatever the sampling "
            "temperature."
        },
    )
    outcome_mode: Literal["ground_truth", "hypothesis"] = field(
        default="ground_truth",
        metadata={
            "help": "`ground_truth`: every hypothesis's value contains the outcome reward against "
            "the truth (the paper). `hypothesis`: its own, 1 where the rollout's answer is that "
            "hypothesis; the truth's stays the reward."
        },
    )
    value_normalization: Literal["batch", "group", "none"] = field(
        default="batch",
        metadata={
            "help": "Whitening of the token weights: over the rollout batch of all processes "
            "(`batch`, released code), within each prompt's group (`group`), or `none` (the "
            "paper's formula). Replaces `scale_rewards`.",
        },
    )

    # Scoring
    scoring_method: Literal["shared_prefix", "reencode"] = field(
        default="shared_prefix",
        metadata={
            "help": "`shared_prefix`: every token of a rollout is computed once, with all answers "
            "of all its states. `reencode`: a sequence per state and answer, for models that do "
            "not allow the first (found out by itself).",
        },
    )
    scoring_max_tokens: int | None = field(
        default=None,
        metadata={
            "help": "Tokens, padding included, of one forward pass that scores answers. None fits "
            "it to the model and the free memory. Halved on all processes when memory runs out."
        },
    )

    def __post_init__(self):
        for option in own_fields():
            value = getattr(self, option.name)
            # not `option.type`, which HfArgumentParser changes
            annotation: Any = BARLConfig.__annotations__[option.name]
            if get_origin(annotation) is Literal:
                allowed = f"one of {list(get_args(annotation))}"
                is_allowed = value in get_args(annotation)
            else:
                kinds = get_args(annotation) or (annotation,)
                allowed = " or ".join(KINDS[kind][0] for kind in kinds)
                is_allowed = isinstance(value, tuple(KINDS[kind][1] for kind in kinds))
            if not is_allowed or isinstance(value, bool):
                raise ValueError(
                    f"{option.name} must be {allowed}, got {value!r}: the default is "
                    f"{option.default!r}."
                )
        for name in (*AT_LEAST_ONE, *BATCH_FIELDS):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                default = type(self).__dataclass_fields__[name].default
                raise ValueError(
                    f"{name} must be at least 1, got {getattr(self, name)}: the default is "
                    f"{default}."
                )
        if self.max_hypotheses is not None and self.max_hypotheses < 2:
            raise ValueError(
                "max_hypotheses must be at least 2 (the truth and one more), got "
                f"{self.max_hypotheses}: for the truth alone set hypotheses='truth'."
            )
        if not self.consistency_beta >= 0:
            raise ValueError(
                f"consistency_beta must be in [0, inf], got {self.consistency_beta}: the paper's "
                "is 1.0."
            )
        if not self.plausibility_temperature > 0:
            raise ValueError(
                "plausibility_temperature must be greater than 0, got "
                f"{self.plausibility_temperature}: use 1.0."
            )
        if not self.elicitation:
            raise ValueError(
                f"elicitation must not be empty, got '': the default is {DEFAULT_ELICITATION!r}."
            )
        if self.outcome_mode == "hypothesis" and self.hypotheses == "truth":
            raise ValueError(
                "outcome_mode must be 'ground_truth' with hypotheses='truth', got 'hypothesis': "
                "there are no other hypotheses."
            )
        self._refuse_sequence_level_settings()
        self._divide_batches()
        super().__post_init__()
        self._warn_of_biased_correction()

    def _divide_batches(self):
        """Sets TRL's batch fields from BARL's two, and refuses batches that do not divide."""
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
        if reason := why_not(batches):
            raise ValueError(reason)
        if self.prompts_per_rollout_batch is not None:
            self.generation_batch_size = batches.rollouts
        self.gradient_accumulation_steps = batches.accumulation

    def batch_settings(self) -> BatchSettings:
        """The settings that decide the sizes of batches."""
        given = {name: getattr(self, name) for name in BATCH_FIELDS}
        evaluates = self.eval_strategy != "no"
        if not evaluates:
            given |= {"per_device_eval_batch_size": None, "num_generations_eval": None}
        return BatchSettings(**given, num_processes=self.world_size)

    def _refuse_sequence_level_settings(self):
        """TRL settings under which the weight of a token would not be its step's value."""
        if self.loss_type not in LOSS_TYPES:
            raise ValueError(
                f"loss_type must be one of {LOSS_TYPES} with BARL, got {self.loss_type!r}: others "
                "weigh whole sequences. The default is 'dapo', the paper's 'grpo'."
            )
        clashes = [
            (
                "importance_sampling_level",
                ["token"],
                "one ratio per sequence would average the steps' values",
            ),
            (
                "multi_objective_aggregation",
                ["sum_then_normalize"],
                "the outcome reward is the rewards' weighted sum",
            ),
            (
                "off_policy_mask_threshold",
                [None],
                "TRL's mask is defined for one advantage per sequence",
            ),
            (
                "scale_rewards",
                ["group", True],
                "BARL's values are not group-relative; set value_normalization instead",
            ),
        ]
        for name, allowed, reason in clashes:
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} must be {allowed[0]!r} with BARL, got {getattr(self, name)!r}: "
                    f"{reason}."
                )

    def _warn_of_biased_correction(self):
        """Log-probabilities of vLLM's are those of what it samples from, the trainer's those of
        the whole vocabulary.
        """
        neutral = {"top_p": [1], "top_k": [0, -1], "min_p": [None, 0], "repetition_penalty": [1]}
        values = {name: getattr(self, name) for name in neutral}
        biased = [f"{n}={value}" for n, value in values.items() if value not in neutral[n]]
        if biased and self.use_vllm and self.vllm_importance_sampling_correction:
            warnings.warn(
                f"{', '.join(biased)}: vLLM samples from another distribution than the trainer "
                "scores, so that the importance ratio is biased. Leave this at its default, or set "
                "vllm_importance_sampling_correction=False.",
                stacklevel=3,
            )


def own_fields() -> list[Field]:
    """The fields that BARL adds to TRL's, or gives another default."""
    return [option for option in fields(BARLConfig) if option.name in BARLConfig.__annotations__]
