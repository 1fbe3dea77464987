"""`BARLConfig`: TRL's `GRPOConfig` with BARL's fields, and what it refuses."""

import json
import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, field, fields
from inspect import Parameter
from numbers import Real
from typing import Any, Literal, get_args, get_origin

from transformers.trainer_pt_utils import AcceleratorConfig
from trl import GRPOConfig

from ..credit.registry import CREDITS, Credit, find_credit
from ..graders.extraction import Extraction
from ..plausibility.elicitation import DEFAULT_ELICITATION
from ..rewards import AccuracyReward
from .contract import check_versions
from .hub import limit_waiting
from .redaction import RedactedArguments

# TRL 1.16 sets gradient_checkpointing, which transformers 5.19 renamed
warnings.filterwarnings("ignore", ".*gradient_checkpointing.*is deprecated", FutureWarning)

# fmt: off
_COUNTS = (
    "step_size", "max_answer_chars", "max_hypotheses", "max_completion_length", "max_result_chars",
    "scoring_max_tokens", "prompts_per_rollout_batch", "max_tool_calling_iterations",
    "rollouts_per_optimizer_step", "per_device_train_batch_size", "gradient_accumulation_steps",
)
"""Fields that are None or whole numbers of at least 1."""
_USED_WITH_ROLLOUTS = ("max_hypotheses", "hypotheses_column", "prior_column", "belief")
"""Fields that change nothing unless the rollouts' answers are hypotheses."""
_USED_WITH_SCORES = (
    "elicitation", "answer_likelihood", "plausibility_temperature", "scoring_method",
    "scoring_max_tokens", "last_state",
)
"""Fields that change nothing unless answers are scored."""
_TAKE_BOTH = ("barl", "bayes", "belief_critic", "gae_posterior")
"""Credits that take the belief in all hypotheses."""
_PER_TOKEN_LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo")

_RULES: tuple[tuple[str, Callable[[Any], Any], str, str], ...] = (
    ("max_hypotheses", lambda s: s.max_hypotheses >= 2,
     "be at least 2 (the truth and one more)", "for the truth alone set credit='progress'"),
    ("consistency_beta", lambda s: s.consistency_beta >= 0, "be in [0, inf]", "the paper's is 1.0"),
    ("plausibility_temperature", lambda s: s.plausibility_temperature > 0, "exceed 0", "use 1.0"),
    ("elicitation", lambda s: s.elicitation and "{answer" not in s.elicitation,
     "be a text without {answer}", "that follows it"),
    ("prior_column", lambda s: s.hypotheses_column,
     "be None without hypotheses_column", "it has the weights of what that column lists"),
    ("belief", lambda s: s.belief != "both" or s.credit in _TAKE_BOTH or s.credit not in CREDITS,
     "be 'model' or 'task' with this credit", f"'both' is for {', '.join(_TAKE_BOTH)}"),
    ("last_state", lambda s: s.last_state != "answer" or s.belief != "model"
     or not s.own_credit.replaces_outcome,
     "be 'measured' with this credit and belief='model'", "every answer would be paid as right"),
    # TRL's, that would train wrongly in silence, or that TRL refuses late or cryptically
    ("output_dir", lambda s: os.fspath(s.output_dir).strip(), "be a folder", "name one"),
    ("num_generations", lambda s: s.num_generations >= 2,
     "be at least 2", "one rollout of a prompt has nothing to be compared with"),
    ("beta", lambda s: s.beta >= 0, "be at least 0", "it weighs the KL divergence"),
    ("temperature", lambda s: s.temperature > 0, "exceed 0", "1.0 is the model's own"),
    ("max_steps", lambda s: s.max_steps != 0, "be at least 1", "-1 trains whole epochs"),
    ("num_train_epochs", lambda s: s.num_train_epochs > 0 or s.max_steps > 0,
     "be above 0", "nothing would be trained"),
    ("enable_jit_checkpoint", lambda s: not s.enable_jit_checkpoint,
     "be False", "it saves in the middle of a step, from which a run cannot go on exactly"),
    ("generation_batch_size", lambda s: s.prompts_per_rollout_batch is None,
     "be left out with prompts_per_rollout_batch", "it follows from that"),
    ("steps_per_generation", lambda s: s.prompts_per_rollout_batch is None,
     "be left out with prompts_per_rollout_batch", "it follows from that"),
    ("gradient_accumulation_steps",
     lambda s: s.rollouts_per_optimizer_step is None or s.gradient_accumulation_steps == 1,
     "be left out with rollouts_per_optimizer_step", "it follows from that"),
    # TRL's, that would give a token another weight than the value of its step
    ("loss_type", lambda s: s.loss_type in _PER_TOKEN_LOSSES,
     f"be one of {_PER_TOKEN_LOSSES} with BARL",
     "others weigh whole sequences. The default is 'dapo', the paper's 'grpo'"),
    ("importance_sampling_level", lambda s: s.importance_sampling_level == "token",
     "be 'token' with BARL", "one ratio per sequence would average the steps' values"),
    ("multi_objective_aggregation",
     lambda s: s.multi_objective_aggregation == "sum_then_normalize",
     "be 'sum_then_normalize' with BARL", "the outcome reward is the rewards' weighted sum"),
    ("off_policy_mask_threshold", lambda s: s.off_policy_mask_threshold is None,
     "be None with BARL", "TRL's mask is defined for one advantage per sequence"),
    ("scale_rewards", lambda s: str(s.scale_rewards).lower() in ("group", "true"),
     "be 'group' with BARL",
     "BARL's values are not group-relative; set value_normalization instead"),
)
"""Field, whether its rule holds, what it must be, and the way out. None breaks no rule."""
_OPTION_RULES = (
    ("credit_options", lambda s: 0 <= s.credit_options.get("gae_lambda", 1) <= 1,
     "have a gae_lambda in [0, 1]", "1 is unbiased"),
    ("credit_options", lambda s: 0 <= s.credit_options.get("information_weight", 0) < math.inf,
     "have a number of at least 0 as information_weight", "0 is unbiased"),
    ("credit_options", lambda s: 0 <= s.credit_options.get("turn_gamma", 1) <= 1,
     "have a turn_gamma in [0, 1]", "1 is unbiased"),
)
"""The same of the options of BARL's credits."""
# fmt: on


def option(default: Any, text: str) -> Any:
    """Declare a field of a dataclass that is parsed, with its default and its help."""
    return field(default=default, metadata={"help": text})


@dataclass(repr=False)
class BARLConfig(RedactedArguments, GRPOConfig):
    r"""Configuration class for the [`BARLTrainer`].

    This class includes only the parameters that are specific to BARL training, and two defaults
    that differ from [`~trl.GRPOConfig`]. The `metadata["help"]` of each field says what it means;
    `barl train --help` and docs/settings.md show it.

    Raises:
        ValueError: A field breaks its rule, a setting of TRL's contradicts BARL, or the batch sizes
            do not divide.
        ImportError: TRL or transformers lacks what BARL relies on.
    """

    _VALID_DICT_FIELDS = [*GRPOConfig._VALID_DICT_FIELDS, "credit_options"]

    # fmt: off
    max_completion_length: int | None = option(1024,
        "Most tokens of a completion (the paper has 1024, TRL's default is 512).")
    vllm_importance_sampling_mode: str = option("token_truncate",
        "How the loss corrects that vLLM's log-probabilities differ from the trainer's. With TRL's "
        "default, `sequence_mask`, rounding decides which rollouts of a thousand tokens count.")

    # Batches
    prompts_per_rollout_batch: int | None = option(None,
        "Prompts of a rollout batch (the paper's: 1024). Sets `generation_batch_size`.")
    rollouts_per_optimizer_step: int | None = option(None,
        "Rollouts of an optimizer step, on all processes together (the paper's: 128). Sets "
        "`gradient_accumulation_steps`.")

    # Steps and states
    step_size: int = option(128,
        "Completion tokens of one reasoning step. The trainer's `step_segmenter` replaces it. In "
        "rollouts of several turns each turn, with the observation after it, is a step.")
    elicitation: str = option(DEFAULT_ELICITATION,
        "Text that asks for an answer after each state; `{answer}.` follows it. An open "
        "`<think>` is closed first.")

    # Credit
    credit: str = option("barl",
        f"Function that gives each step its weight: `{'`, `'.join(CREDITS)}`, or the dotted "
        "path of your own. docs/credit.md says what each computes and costs.")
    credit_options: dict[str, Any] | str | None = option(None,
        "Settings that only the credit's function takes, by name: `outcome_mode` (of `barl`), "
        "`progress_space` (`progress`, `information_gain`), `gain_normalization` "
        "(`information_gain`), `gae_lambda` (`gae`, `gae_posterior`, `belief_critic`), "
        "`bootstrap_cut_off` (`belief_critic`), `information_weight` (`bayes`), `turn_return` and "
        "`turn_gamma` (`turns`, also `gae_lambda`), or those of your own. A mapping in a recipe; "
        "on a command line `--credit_options '{\"gae_lambda\": 0.9}'`.")
    credit_baseline: Literal[
        "none", "batch", "group", "leave_one_out", "step", "state", "belief"] | None = option(None,
        "Mean that is subtracted from the steps' weights before whitening: that of the `batch`, of "
        "the prompt's `group`, of the prompt's other rollouts (`leave_one_out`), of theirs at the "
        "same `step`, of theirs in the same `state`: behind the same observation, or what least "
        "squares on the `belief`, fitted to the batch's other prompts, predict. None: the credit's "
        "own (`barl`: `none`).")

    # Agents
    max_result_chars: int = option(100_000,
        "Longest result of a tool in characters; a longer one is cut, which its text says.")

    # Answers and hypotheses
    extraction: Extraction = option("boxed",
        "Text of a response that is read as its answer. `boxed`: the last box. `stated`: without "
        'a box also "the answer is 42", `#### 42`, `<answer>42</answer>`, `**42**`, '
        "`\\boxed 42`, in this order. `last_number`: without any of these the last number.")
    solution_column: str = option("solution",
        "Dataset column with the true answer: bare, boxed, or after `####`.")
    max_answer_chars: int = option(64,
        "Longest answer in characters that becomes a hypothesis (released code: 20).")
    max_hypotheses: int | None = option(None,
        "Most hypotheses of a prompt, with the true answer. The rarest answers are dropped.")
    hypotheses_column: str | None = option(None,
        "Dataset column with a list of texts: more hypotheses of each prompt. With "
        "`belief='task'` or `'both'` the list is closed: other answers are no hypotheses.")
    prior_column: str | None = option(None,
        "Dataset column with the prior weights of the texts in `hypotheses_column`. None: all have "
        "the same weight.")

    # Values
    belief: Literal["model", "task", "both"] = option("model",
        "Where the belief over hypotheses comes from. `model`: how likely the model finds each "
        "answer (the paper). `task`: prior and likelihoods of observations "
        "(`observation_likelihood`, `hypothesis_rewards`); no answer is scored. `both`: what the "
        "model finds likely at the prompt, times these. `grpo` and `rloo` only log it.")
    consistency_beta: float = option(1.0,
        "Weight of the reward discrepancy in the posterior, the paper's beta. From 0 (only "
        "plausibility counts) to `inf` (any discrepancy eliminates a hypothesis). `bayes`, and the "
        "beliefs `task` and `both`, use it with `hypothesis_rewards` alone. TRL's `beta` is the KL "
        "coefficient.")
    answer_likelihood: Literal["mean", "sum", "token_mean"] | None = option(None,
        "How an answer's plausibility follows from its token probabilities. `mean`: geometric "
        "mean (released code); it flatters long answers, whose later tokens are certain. `sum`: "
        "product (the paper's pi(y|s)). `token_mean`: arithmetic mean. None: the credit's own "
        "(`barl`: `mean`).")
    plausibility_temperature: float = option(1.0,
        "Temperature at which answers are scored. TRL's `temperature` is that of sampling.")
    last_state: Literal["measured", "answer"] = option("measured",
        "What is believed at the last state. `measured`: what the model finds likely there. "
        "`answer`: the rollout's own answer is certain. Some agents give an answer that they "
        "would not give again when asked in the elicitation's words.")
    value_normalization: Literal["batch", "group", "none"] | None = option(None,
        "Where token weights are whitened; replaces `scale_rewards`. `batch`: over the rollout "
        "batch of all processes (released code). `group`: within each prompt's group. `none`: "
        "nowhere (the paper's formula). None: the credit's own (`barl`: `batch`).")

    # Scoring
    scoring_method: Literal["shared_prefix", "reencode"] = option("shared_prefix",
        "How answers are scored. `shared_prefix`: every token of a rollout is computed once, with "
        "all answers at all states. `reencode`: a sequence per state and answer. Models that do "
        "not allow `shared_prefix` are re-encoded.")
    scoring_max_tokens: int | None = option(None,
        "Most tokens of a forward pass that scores answers, padding included. None: fitted to the "
        "model and the free memory. Halved on all processes when memory runs out.")

    # Records
    log_beliefs: bool = option(False,
        "Write each rollout batch of training to `beliefs/rollouts_<step>.parquet` in "
        "`output_dir`, for `barl inspect` (docs/inspector.md).")
    push_beliefs: bool = option(False,
        "Push `beliefs/` to the Hub with the model: whoever reads it sees the rollouts.")

    # Folders
    overwrite_output_dir: bool = option(False,
        "Delete what an earlier run wrote to `output_dir`, and nothing else, when training begins. "
        "Without it such a folder is refused. A run that resumes from a checkpoint there deletes "
        "nothing.")
    allow_inexact_resume: bool = option(False,
        "Resume although no exact resume is possible: with other settings (batches, `seed`, data "
        "set), or from a checkpoint of TRL's trainer, or one within a rollout batch.")
    # fmt: on

    def __post_init__(self):
        check_versions(frozenset(BARLConfig.__annotations__))  # before any trainer is made
        self._refuse_other_values()
        self._refuse_broken(_RULES)
        self._divide_batches()
        try:
            super().__post_init__()
        except json.JSONDecodeError as error:  # its text may hold a token
            name = next(n for n in self._VALID_DICT_FIELDS if getattr(self, n) == error.doc)
            raise ValueError(f"{name} must be a JSON object: {error}.") from None
        for name in self._VALID_DICT_FIELDS:
            is_right = not name.endswith("_kwargs") or isinstance(getattr(self, name), dict | None)
            self._must(name, is_right, "be a mapping", "names to values")
        self.output_dir = os.path.abspath(str(self.output_dir))  # a tool may change the folder
        self.check_credit_options()
        limit_waiting()

    @property
    def own_credit(self) -> Credit:
        """The credit, with the fields that are set here in place of the credit's defaults."""
        credit = find_credit(self.credit)
        names = ("answer_likelihood", "credit_baseline", "value_normalization")
        changed = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        is_whole = self.belief == "task" or (self.belief == "both" and credit.hypotheses == "truth")
        is_read = (self.credit_baseline or credit.credit_baseline) == "belief"
        if is_whole or is_read:  # the task's belief is over all hypotheses
            changed["hypotheses"] = "rollouts"
        if self.credit == "belief_critic" and self.belief != "model":
            changed["replaces_outcome"] = True
        return credit._replace(**changed)

    def credit_for(self, rewards: Sequence[Any]) -> Credit:
        """Return the credit; plain RL needs truths only if a grader is among its rewards."""
        credit = self.own_credit
        is_read = credit.hypotheses != "none" or any(isinstance(r, AccuracyReward) for r in rewards)
        return credit._replace(needs_truth=credit.needs_truth and is_read)

    @property
    def scores_answers(self) -> bool:
        """Whether the model scores answers, which costs a forward pass."""
        return self.belief != "task" and self.own_credit.hypotheses != "none"

    def hears_rewards(self, are_predicted: bool) -> bool:
        """Return whether the belief has a consistency: that of progress rewards knows the truth."""
        return are_predicted or (self.belief == "model" and not self.own_credit.replaces_outcome)

    @property
    def settings(self) -> dict[str, Any]:
        """The value of each of BARL's fields, with the credit's default in place of None.

        `credit_options` has the defaults of the credit's function, too, where these are numbers,
        texts or truth values; `bayes` pays for information by default only where the belief is the
        task's. Rollout records keep these settings.
        """
        settings = {one.name: getattr(self, one.name) for one in own_fields()}
        credit = self.own_credit._asdict()
        settings |= {name: value for name, value in credit.items() if name in settings}
        defaults = {name: parameter.default for name, parameter in self._parameters.items()}
        options: Any = {n: v for n, v in defaults.items() if isinstance(v, str | Real)}
        if self.credit == "bayes" and self.belief != "task":
            options["information_weight"] = 0.0  # above it, a model would be paid for being sure
        given: Any = self.credit_options or {}
        return settings | {"credit_options": options | given}

    def unused(self, hears_rewards: bool = True) -> str | None:
        """Return a line that names the settings that change nothing; None if all have an effect."""
        credit, said = self.own_credit, f"credit={self.credit!r} with belief={self.belief!r}"
        names = _USED_WITH_ROLLOUTS * (credit.hypotheses != "rollouts")
        names += _USED_WITH_SCORES * (not self.scores_answers)
        names += ("last_state",) * (credit.replaces_outcome and self.belief == "both")
        names += ("consistency_beta",) * (credit.hypotheses != "rollouts" or not hears_rewards)
        changed = [name for name in names if getattr(self, name) != getattr(BARLConfig, name)]
        unused = ", ".join(f"{name}={getattr(self, name)!r}" for name in changed)
        return f"{said} does not use {unused}." if unused else None

    @property
    def _parameters(self) -> dict[str, Parameter]:
        """The parameters of the credit's function that are no fields, by name."""
        found, known = find_credit(self.credit).parameters, BARLConfig.__annotations__
        return {name: found[name] for name in found if name not in known}

    def _must(self, name: str, holds: Any, rule: str, way_out: str) -> None:
        if not holds:
            raise ValueError(f"{name} must {rule}, got {getattr(self, name)!r}: {way_out}.")

    def _refuse_broken(self, rules: Any) -> None:
        for name, holds, rule, way_out in rules:
            try:
                is_kept = getattr(self, name) is None or holds(self)
            except TypeError:  # a text, for instance
                is_kept = False
            self._must(name, is_kept, rule, way_out)

    def _refuse_other_values(self) -> None:
        numbers = [one for one in fields(self) if isinstance(one.default, Real)]
        for one in numbers:  # YAML reads 1e-6 as a text
            rule, way_out = f"be a {type(one.default).__name__}", f"the default is {one.default!r}"
            self._must(one.name, not isinstance(getattr(self, one.name), str), rule, way_out)
        for one in own_fields():
            value, default = getattr(self, one.name), f"the default is {one.default!r}"
            kind = BARLConfig.__annotations__[one.name]  # HfArgumentParser changes `one.type`
            choices = _choices_of(kind)
            self._must(one.name, not choices or value in choices, f"be one of {choices}", default)
            may_lack = value is not None or type(None) in get_args(kind)
            self._must(one.name, may_lack, "be set", default)
            types = tuple(t for t in get_args(kind) or (kind,) if isinstance(t, type))
            is_right = not {bool, str} & {*types} or isinstance(value, types)
            rule = f"be a {' or '.join(t.__name__ for t in types)}"
            self._must(one.name, is_right or one.name == "credit_options", rule, default)
        for name in _COUNTS:
            value, default = getattr(self, name), f"the default is {getattr(BARLConfig, name)!r}"
            is_number = isinstance(value, int) and not isinstance(value, bool)
            is_count = value is None or (is_number and value >= 1)
            self._must(name, is_count, "be a whole number of at least 1", default)

    def _divide_batches(self) -> None:
        """Set TRL's batch fields from BARL's two.

        A whole number of micro-batches of all processes makes an optimizer step, and a whole number
        of optimizer steps a rollout batch. TRL checks that it holds whole groups.
        """
        # `device` makes the distributed state, which knows the number of processes. The
        # accelerator's configuration may say that the state exists already, so it is parsed first.
        if isinstance(self.accelerator_config, dict):
            accelerator_config: Any = AcceleratorConfig(**self.accelerator_config)
            self.accelerator_config = accelerator_config
        _ = self.device
        at_once = self.per_device_train_batch_size * self.world_size
        step, prompts = self.rollouts_per_optimizer_step, self.prompts_per_rollout_batch
        if step is not None:
            rule = f"be a multiple of per_device_train_batch_size * num_processes = {at_once}"
            nearest = _nearest(step, at_once)
            self._must("rollouts_per_optimizer_step", step % at_once == 0, rule, nearest)
            self.gradient_accumulation_steps = step // at_once
        whole = step or at_once
        if prompts is not None:
            size = self.num_generations or 1
            self.generation_batch_size = prompts * size
            unit = whole // math.gcd(whole, size)
            rule = f"be a multiple of {unit} with {whole} rollouts in an optimizer step"
            rule += f" and num_generations={self.num_generations}"
            nearest = _nearest(prompts, unit)
            self._must("prompts_per_rollout_batch", prompts % unit == 0, rule, nearest)
        elif step is not None and (self.generation_batch_size or self.steps_per_generation):
            batch = self.generation_batch_size or at_once * (self.steps_per_generation or 1)
            rule = f"divide the rollout batch of {batch} rollouts"
            self._must("rollouts_per_optimizer_step", batch % step == 0, rule, "change one of them")

    def check_credit_options(self) -> None:
        """Refuse options that the credit's function does not take, or of which it lacks one."""
        given: Any = self.credit_options or {}
        takes = self._parameters
        self._must("credit_options", isinstance(given, dict), "be a mapping", "names to values")
        for name, value in given.items():
            rule = f"hold what credit={self.credit!r} takes ({', '.join(takes) or 'nothing'})"
            self._must("credit_options", name in takes, rule, f"leave out {name!r}")
            choices = _choices_of(takes[name].annotation)
            where, rule = "docs/credit.md says what it does", f"have one of {choices} as {name}"
            self._must("credit_options", not choices or value in choices, rule, where)
            usual = takes[name].default
            is_right = not isinstance(usual, Real) or isinstance(value, Real)
            is_right &= isinstance(usual, bool) == isinstance(value, bool)
            rule = f"have a value such as {usual!r} as {name}"
            self._must("credit_options", is_right, rule, where)
        for name, parameter in takes.items():
            is_there = name in given or parameter.default is not Parameter.empty
            self._must("credit_options", is_there, f"have {name!r}", f"{self.credit} needs it")
        if self.credit in CREDITS:
            self._refuse_broken(_OPTION_RULES)


def own_fields() -> tuple[Field, ...]:
    """Return the fields that TRL does not have, or that BARL gives another default."""
    return tuple(one for one in fields(BARLConfig) if one.name in BARLConfig.__annotations__)


def _nearest(value: int, unit: int) -> str:
    lower = value // unit * unit
    return f"the nearest are {' or '.join(str(one) for one in (lower, lower + unit) if one)}"


def _choices_of(annotation: Any) -> list[Any]:
    """Return the values that a `Literal` lists, with None if it may be left out; else none."""
    kinds = (annotation,) if get_origin(annotation) is Literal else get_args(annotation)
    named = [value for kind in kinds if get_origin(kind) is Literal for value in get_args(kind)]
    return [*named, None] if named and type(None) in kinds else named
