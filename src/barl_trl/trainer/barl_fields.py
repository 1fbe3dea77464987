"""The fields that BARL adds to TRL's `GRPOConfig`, each with its text and its rule.

Without TRL and torch, so that help and mistakes in these fields need neither.
"""

from dataclasses import Field, dataclass, field, fields
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin

from ..plausibility.elicitation import DEFAULT_ELICITATION

Method = Literal["barl", "progress", "grpo", "grpo_length_controlled"]
"""The paper's method and its baselines."""

LENGTH_CONTROLLED_TOKENS = 32
"""Most completion tokens of the paper's length-controlled GRPO."""

AT_LEAST_ONE = ("step_size", "max_answer_chars", "max_completion_length", "scoring_max_tokens")
KINDS = {
    int: ("an integer", Integral),
    float: ("a number", Real),
    str: ("a text", str),
    type(None): ("None", type(None)),
}
"""The types of fields: what they are called, and what they take."""


def option(default: Any, text: str) -> Any:
    """Declare a field of a dataclass that is parsed, with its default and its help."""
    return field(default=default, metadata={"help": text})


@dataclass
class BARLFields:
    """The fields of a [`BARLConfig`] that are BARL's own, or have a default of its own.

    Raises:
        ValueError: A field has a value of another type, or breaks its rule.
    """

    max_completion_length: int | None = option(
        1024, "Maximum length of the generated completion (the paper's; TRL: 512)."
    )
    vllm_importance_sampling_mode: str = option(
        "token_truncate",
        "How the mismatch between vLLM and the trainer is corrected. TRL's default, "
        "`sequence_mask`, lets rounding decide about rollouts of a thousand tokens.",
    )

    # Batches
    prompts_per_rollout_batch: int | None = option(
        None, "Prompts of a rollout batch (the paper's: 1024). Sets `generation_batch_size`."
    )
    rollouts_per_optimizer_step: int | None = option(
        None,
        "Rollouts of an optimizer step, of all processes (the paper's: 128). Sets "
        "`gradient_accumulation_steps`. In transformers `train_batch_size` is another thing.",
    )

    # Steps and states
    step_size: int = option(
        128,
        "Completion tokens of one reasoning step. A `step_segmenter` of the trainer replaces it.",
    )
    elicitation: str = option(
        DEFAULT_ELICITATION,
        "Text placed behind a state to ask for an answer; `{answer}.` follows it. An "
        "open `<think>` is closed first.",
    )

    # Hypotheses
    hypotheses: Literal["rollouts", "truth"] = option(
        "rollouts",
        "`rollouts`: the truth and the answers of the prompt's rollouts (BARL). "
        "`truth`: the truth alone (the progress-reward baseline).",
    )
    solution_column: str = option(
        "solution", "Dataset column with the true answer: bare, boxed, or behind `####`."
    )
    max_answer_chars: int = option(
        64, "Longest answer in characters that becomes a hypothesis (released code: 20)."
    )
    max_hypotheses: int | None = option(
        None, "Most hypotheses of a prompt, the truth included. The rarest answers are dropped."
    )

    # Values
    consistency_beta: float = option(
        1.0,
        "The paper's beta: weight of the reward discrepancy in the posterior. From 0 "
        "(plausibility alone) to `inf` (any discrepancy eliminates a hypothesis). TRL's `beta` "
        "is the KL coefficient.",
    )
    answer_likelihood: Literal["mean", "sum"] = option(
        "mean",
        "`mean`: an answer's plausibility is the geometric mean of its token "
        "probabilities (released code). `sum`: their product (the paper's pi(y|s)).",
    )
    plausibility_temperature: float = option(
        1.0, "Temperature at which answers are scored. The sampling temperature is another setting."
    )
    outcome_mode: Literal["ground_truth", "hypothesis"] = option(
        "ground_truth",
        "`ground_truth`: every hypothesis's value contains the outcome reward against "
        "the truth (the paper). `hypothesis`: its own, 1 where the rollout's answer is that "
        "hypothesis; the truth's stays the reward.",
    )
    value_normalization: Literal["batch", "group", "none"] = option(
        "batch",
        "`batch`: token weights are whitened over the rollout batch of all processes "
        "(released code). `group`: within each prompt's group. `none`: the paper's formula. "
        "Replaces `scale_rewards`.",
    )

    # Scoring
    scoring_method: Literal["shared_prefix", "reencode"] = option(
        "shared_prefix",
        "`shared_prefix`: every token of a rollout is computed once, with all answers "
        "of all its states. `reencode`: a sequence per state and answer, for models that do "
        "not allow the first (found out by itself).",
    )
    scoring_max_tokens: int | None = option(
        None,
        "Tokens of one forward pass that scores answers, padding included. None fits "
        "it to the model and the free memory. Halved on all processes when memory runs out.",
    )

    def __post_init__(self):
        for known in barl_fields():
            self._check_type(known)
        for name in AT_LEAST_ONE:
            check_at_least_one(name, getattr(self, name), default_of(name))
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

    def _check_type(self, known: Field) -> None:
        value = getattr(self, known.name)
        # not `known.type`, which HfArgumentParser changes
        annotation: Any = BARLFields.__annotations__[known.name]
        if get_origin(annotation) is Literal:
            allowed = f"one of {list(get_args(annotation))}"
            is_allowed = value in get_args(annotation)
        else:
            kinds = get_args(annotation) or (annotation,)
            allowed = " or ".join(KINDS[kind][0] for kind in kinds)
            is_allowed = isinstance(value, tuple(KINDS[kind][1] for kind in kinds))
        if not is_allowed or isinstance(value, bool):
            raise ValueError(
                f"{known.name} must be {allowed}, got {value!r}: the default is {known.default!r}."
            )


def barl_fields() -> tuple[Field, ...]:
    """Return the fields that BARL adds to TRL's, or gives another default."""
    return fields(BARLFields)


def default_of(name: str) -> Any:
    """Return the default of one of these fields."""
    return BARLFields.__dataclass_fields__[name].default


def check_at_least_one(name: str, value: int | None, default: Any) -> None:
    """Refuse a count below 1; `None` counts nothing.

    Raises:
        ValueError: The value is below 1.
    """
    if value is not None and value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}: the default is {default}.")
