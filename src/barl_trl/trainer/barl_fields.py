"""The fields that BARL adds to TRL's `GRPOConfig`, each with its help text.

This module imports neither TRL nor torch, so that help is printed and wrong settings are refused
without waiting for them.
"""

from copy import copy
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, get_args, get_origin

from ..credit.registry import CREDITS, Credit, find_credit
from ..graders.extraction import Extraction
from ..plausibility.elicitation import DEFAULT_ELICITATION
from .checks.settings import BARL_RULES, CREDIT_RULES, refuse_broken

METHODS = (*CREDITS, "grpo_length_controlled")
"""Names of the methods. `grpo` and `grpo_length_controlled`, the paper's baselines, train as TRL
does; every other method is BARL's trainer with the credit of that name."""

LENGTH_CONTROLLED_TOKENS = 32
"""The longest completion, in tokens, of the paper's length-controlled GRPO."""

_KINDS = {
    int: ("an integer", Integral),
    float: ("a number", Real),
    str: ("a text", str),
    bool: ("true or false", bool),
    type(None): ("None", type(None)),
}
"""Type of a field -> what a message calls it, and the type that its values must have."""

# fmt: off
_USED_BY_GRPO = (
    "max_completion_length", "vllm_importance_sampling_mode", "prompts_per_rollout_batch",
    "rollouts_per_optimizer_step", "extraction", "solution_column", "overwrite_output_dir",
    "allow_inexact_resume",
)
"""Fields that also take effect in TRL's own trainer."""
_USED_WITH_ROLLOUTS = (
    "consistency_beta", "max_hypotheses", "hypotheses_column", "prior_column", "belief",
)
"""Fields that change nothing unless the rollouts' answers are hypotheses."""
_USED_WITH_SCORES = (
    "elicitation", "answer_likelihood", "plausibility_temperature", "scoring_method",
    "scoring_max_tokens", "last_state",
)
"""Fields that change nothing unless answers are scored."""
# fmt: on

_Settings = TypeVar("_Settings", bound="BARLFields")


def option(default: Any, text: str) -> Any:
    """Declare a field of a dataclass that is parsed, with its default and its help."""
    return field(default=default, metadata={"help": text})


@dataclass
class BARLFields:
    """The fields of a [`BARLConfig`] that TRL does not have, or that have another default.

    Raises:
        ValueError: A field has a value of another type, or breaks its rule.
    """

    max_completion_length: int | None = option(
        1024, "Most tokens of a completion (the paper has 1024, TRL's default is 512)."
    )
    vllm_importance_sampling_mode: str = option(
        "token_truncate",
        "How the loss corrects that vLLM's log-probabilities differ from the trainer's. With TRL's "
        "default, `sequence_mask`, rounding decides which rollouts of a thousand tokens count.",
    )

    # Batches
    prompts_per_rollout_batch: int | None = option(
        None, "Prompts of a rollout batch (the paper's: 1024). Sets `generation_batch_size`."
    )
    rollouts_per_optimizer_step: int | None = option(
        None,
        "Rollouts of an optimizer step, on all processes together (the paper's: 128). Sets "
        "`gradient_accumulation_steps`.",
    )

    # Steps and states
    step_size: int = option(
        128,
        "Completion tokens of one reasoning step. The trainer's `step_segmenter` replaces it. In "
        "rollouts of several turns each turn, with the observation after it, is a step.",
    )
    elicitation: str = option(
        DEFAULT_ELICITATION,
        "Text that asks for an answer after each state; `{answer}.` follows it. An open "
        "`<think>` is closed first.",
    )

    # Credit
    credit: str = option(
        "barl",
        f"Function that gives each step its weight: `{'`, `'.join(CREDITS)}`, or the dotted "
        "path of your own. docs/credit.md says what each computes and costs. `barl train --method` "
        "sets it, but for `grpo`: `--method grpo` runs TRL's trainer, `credit='grpo'` runs BARL's "
        "with GRPO's weights.",
    )
    credit_baseline: Literal["none", "batch", "group", "leave_one_out", "step"] | None = option(
        None,
        "Mean that is subtracted from the steps' weights before whitening: that of the `batch`, of "
        "the prompt's `group`, of the prompt's other rollouts (`leave_one_out`), or of all "
        "weights at the same `step`. None: the credit's own (`barl`: `none`).",
    )
    gae_lambda: float | None = option(
        None,
        "Lambda of `gae`, `gae_posterior` and `belief_critic`, from 0 (the critic alone) to 1 "
        "(unbiased). None: the credit's own (1, 1 and 0.7).",
    )
    bootstrap_cut_off: bool | None = option(
        None,
        "With `belief_critic`, whether the critic's value at the end replaces the outcome of a "
        "rollout that was cut off. None: it does.",
    )
    progress_space: Literal["probability", "log"] = option(
        "probability",
        "Whether `progress` and `information_gain` take differences of probabilities or of "
        "log-probabilities.",
    )
    gain_normalization: Literal["joint", "separate"] = option(
        "joint",
        "How `information_gain` standardises gains and outcomes of a group: all together (`joint`, "
        "the paper) or each kind on its own (`separate`, its released code). `joint` favours early "
        "answers if rollouts differ in their number of turns.",
    )

    # Answers and hypotheses
    extraction: Extraction = option(
        "boxed",
        "Text of a response that is read as its answer. `boxed`: the last box. `stated`: without "
        'a box also "the answer is 42", `#### 42`, `<answer>42</answer>`, `**42**`, '
        "`\\boxed 42`, in this order. `last_number`: without any of these the last number.",
    )
    solution_column: str = option(
        "solution", "Dataset column with the true answer: bare, boxed, or after `####`."
    )
    max_answer_chars: int = option(
        64, "Longest answer in characters that becomes a hypothesis (released code: 20)."
    )
    max_hypotheses: int | None = option(
        None, "Most hypotheses of a prompt, with the true answer. The rarest answers are dropped."
    )
    hypotheses_column: str | None = option(
        None,
        "Dataset column with a list of texts: more hypotheses of each prompt. With "
        "`belief='task'` or `'both'` the list is closed: other answers are no hypotheses.",
    )
    prior_column: str | None = option(
        None,
        "Dataset column with the prior weights of the texts in `hypotheses_column`. None: all have "
        "the same weight.",
    )

    # Values
    belief: Literal["model", "task", "both"] = option(
        "model",
        "Where the belief over hypotheses comes from. `model`: how likely the model finds each "
        "answer (the paper). `task`: prior and likelihoods of observations "
        "(`observation_likelihood`, `hypothesis_rewards`); no answer is scored. `both`: their "
        "product. `grpo` and `rloo` only log it.",
    )
    information_weight: float = option(
        0.0,
        "With `bayes`, the weight of information. A step earns this times the entropy that it and "
        "later steps take from the belief, as a share of the largest entropy. 0 leaves the "
        "gradient unbiased.",
    )
    consistency_beta: float = option(
        1.0,
        "Weight of the reward discrepancy in the posterior, the paper's beta. From 0 (only "
        "plausibility counts) to `inf` (any discrepancy eliminates a hypothesis). TRL's `beta` "
        "is the KL coefficient.",
    )
    answer_likelihood: Literal["mean", "sum", "token_mean"] | None = option(
        None,
        "How an answer's plausibility follows from its token probabilities. `mean`: geometric "
        "mean (released code); it flatters long answers, whose later tokens are certain. `sum`: "
        "product (the paper's pi(y|s)). `token_mean`: arithmetic mean. None: the credit's own "
        "(`barl`: `mean`).",
    )
    plausibility_temperature: float = option(
        1.0, "Temperature at which answers are scored. TRL's `temperature` is that of sampling."
    )
    last_state: Literal["measured", "answer"] = option(
        "measured",
        "What is believed at the last state. `measured`: what the model finds likely there. "
        "`answer`: the rollout's own answer is certain. Some agents give an answer that they "
        "would not give again when asked in the elicitation's words.",
    )
    outcome_mode: Literal["ground_truth", "hypothesis"] = option(
        "ground_truth",
        "Outcome reward in the value of each hypothesis. `ground_truth`: the rollout's reward, for "
        "all (the paper). `hypothesis`: 1 where the rollout's answer is that hypothesis, else 0; "
        "for the truth the rollout's reward.",
    )
    value_normalization: Literal["batch", "group", "none"] | None = option(
        None,
        "Where token weights are whitened; replaces `scale_rewards`. `batch`: over the rollout "
        "batch of all processes (released code). `group`: within each prompt's group. `none`: "
        "nowhere (the paper's formula). None: the credit's own (`barl`: `batch`).",
    )

    # Scoring
    scoring_method: Literal["shared_prefix", "reencode"] = option(
        "shared_prefix",
        "How answers are scored. `shared_prefix`: every token of a rollout is computed once, with "
        "all answers at all states. `reencode`: a sequence per state and answer. Models that do "
        "not allow `shared_prefix` are re-encoded.",
    )
    scoring_max_tokens: int | None = option(
        None,
        "Most tokens of a forward pass that scores answers, padding included. None: fitted to the "
        "model and the free memory. Halved on all processes when memory runs out.",
    )

    # Records
    log_beliefs: bool = option(
        False,
        "Write each rollout batch of training to `beliefs/rollouts_<step>.parquet` in "
        "`output_dir`, for `barl inspect` (docs/inspector.md).",
    )

    # Folders
    overwrite_output_dir: bool = option(
        False,
        "Delete what an earlier run wrote to `output_dir`, and nothing else, when training begins. "
        "Without it such a folder is refused. A run that resumes from a checkpoint there deletes "
        "nothing.",
    )
    allow_inexact_resume: bool = option(
        False,
        "Resume although other settings than those of the checkpoint (batches, `seed`, data set, "
        "method) make an exact resume impossible. The checkpoint's remaining rollouts are dropped.",
    )

    def __post_init__(self):
        for checked in barl_fields():
            self._check_type(checked)
        refuse_broken(BARL_RULES, self)
        find_credit(self.credit)  # raises for a credit that does not exist
        # `method_settings` may still replace the default credit, and checks these rules then
        if self.credit != BARLFields.credit:
            refuse_broken(CREDIT_RULES, self)

    @property
    def own_credit(self) -> Credit:
        """The credit, with the fields that are set here in place of the credit's defaults."""
        credit = find_credit(self.credit)
        fields_set = {name: getattr(self, name, None) for name in credit._fields}
        fields_set = {name: value for name, value in fields_set.items() if value is not None}
        is_whole = self.belief == "task" or (self.belief == "both" and credit.hypotheses == "truth")
        if is_whole:  # the task's belief is over all hypotheses
            fields_set["hypotheses"] = "rollouts"
        return credit._replace(**fields_set)

    @property
    def scores_answers(self) -> bool:
        """Whether the model scores answers, which costs a forward pass."""
        return self.belief != "task" and self.own_credit.hypotheses != "none"

    @property
    def settings(self) -> dict[str, Any]:
        """The value of each of BARL's fields, with the credit's default in place of None.

        The credit is called with these settings, and rollout records keep them.
        """
        settings = {one.name: getattr(self, one.name) for one in barl_fields()}
        credit = self.own_credit._asdict()
        return settings | {name: value for name, value in credit.items() if name in settings}

    def unused(self, *, is_grpo: bool = False) -> str | None:
        """Return a line that names the settings that change nothing, or None if all have an effect.

        Args:
            is_grpo: Whether TRL's own trainer trains.
        """
        hypotheses = self.own_credit.hypotheses
        names = _USED_WITH_ROLLOUTS * (hypotheses != "rollouts")
        names += _USED_WITH_SCORES * (not self.scores_answers)
        if is_grpo:
            names = [one.name for one in barl_fields() if one.name not in _USED_BY_GRPO]
        settings = {name: getattr(self, name) for name in names}
        unused = [
            f"{name}={value!r}"
            for name, value in settings.items()
            if value != getattr(BARLFields, name)
        ]
        trained = "method='grpo'" if is_grpo else f"credit={self.credit!r}"
        return f"{trained} does not use {', '.join(unused)}." if unused else None

    def _check_type(self, checked: Field) -> None:
        value = getattr(self, checked.name)
        # HfArgumentParser changes `checked.type`
        annotation: Any = BARLFields.__annotations__[checked.name]
        kinds = get_args(annotation) or (annotation,)
        if choices := choices_of(annotation):
            allowed, is_allowed = f"one of {choices}", value in choices
        else:
            allowed = " or ".join(_KINDS[kind][0] for kind in kinds)
            is_allowed = isinstance(value, tuple(_KINDS[kind][1] for kind in kinds))
            # True and False are integers to Python
            is_allowed &= bool in kinds or not isinstance(value, bool)
        if not is_allowed:
            raise ValueError(
                f"{checked.name} must be {allowed}, got {value!r}: the default is "
                f"{checked.default!r}."
            )


def check_method(name: str) -> None:
    """Refuse a method that is neither a known name nor a dotted path.

    Raises:
        ValueError: The method is neither.
    """
    if name not in METHODS and "." not in name:
        near = get_close_matches(name, METHODS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "docs/credit.md says what each computes."
        raise ValueError(
            f"method must be one of {[*METHODS]} or a dotted path, got {name!r}: {hint}"
        )


def method_settings(method: str, args: _Settings) -> _Settings:
    """Return a copy of the settings in which the method's own settings are set.

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
        most = args.max_completion_length or LENGTH_CONTROLLED_TOKENS
        args.max_completion_length = min(most, LENGTH_CONTROLLED_TOKENS)
    elif method == "barl":
        refuse_broken(CREDIT_RULES, args)
    elif method != "grpo":
        args.credit = method
        BARLFields.__post_init__(args)
    return args


def choices_of(annotation: Any) -> list[Any]:
    """Return the values that a field's `Literal` type lists; no values for other types."""
    kinds = get_args(annotation) if get_origin(annotation) is not Literal else (annotation,)
    named = [value for kind in kinds if get_origin(kind) is Literal for value in get_args(kind)]
    return [*named, None] if named and type(None) in kinds else named


def barl_fields() -> tuple[Field, ...]:
    """Return the fields that TRL does not have, or that BARL gives another default."""
    return fields(BARLFields)


def help_of(name: str) -> str:
    """Return the help text of one of BARL's fields."""
    return BARLFields.__dataclass_fields__[name].metadata["help"]
