"""The rules of settings, one row for each rule.

`barl train` checks the options on its command line before it imports TRL; [`BARLConfig`] checks all
of its fields. This module imports neither TRL nor torch, so that a mistake is reported at once.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ...credit.registry import CREDITS, find_credit
from .batch_sizes import BatchSettings

_BATCH_FIELDS = tuple(name for name in BatchSettings._fields if name != "num_processes")
_TAKE_BOTH = ("barl", "bayes", "belief_critic", "gae_posterior")
_LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo")


class Rule(NamedTuple):
    """A rule that a setting must keep. A setting of None breaks no rule.

    `must` and `way_out` are format strings: `{s.FIELD}` is the value of a setting, `{value!r}` is
    the value of `field`, and `{default}` is its default.
    """

    field: str
    """The name of the setting."""
    holds: Callable[[Any], Any]
    """All settings -> whether the rule holds."""
    must: str
    """What the setting must be; it follows the word "must" in the error message."""
    way_out: str
    """What to set instead; it ends the error message."""


def refuse_broken(rules: Iterable[Rule], settings: Any) -> None:
    """Refuse settings that break a rule.

    Args:
        rules: The rules, in the order in which they are checked.
        settings: An object with the settings; its class has their defaults.

    Raises:
        ValueError: A rule is broken. The message tells the first broken rule.
    """
    for rule in rules:
        value = getattr(settings, rule.field)
        if value is not None and not rule.holds(settings):
            default = getattr(type(settings), rule.field, None)
            text = f"{rule.field} must {rule.must}, got {{value!r}}: {rule.way_out}."
            raise ValueError(text.format(s=settings, value=value, default=default))


def _count(field: str) -> Rule:
    way_out = "the default is {default}"
    return Rule(field, lambda s: getattr(s, field) >= 1, "be at least 1", way_out)


def _only(field: str, *allowed: str, why: str) -> Rule:
    def holds(s: Any) -> bool:
        return str(getattr(s, field)).lower() in allowed  # on a command line values are texts

    return Rule(field, holds, f"be {allowed[0]!r} with BARL", why)


def _follows(field: str, source: str) -> Rule:
    def holds(s: Any) -> bool:
        return getattr(s, source) is None or getattr(s, field) == getattr(type(s), field)

    must = f"be left out with {source}={{s.{source}}}"
    return Rule(field, holds, must, f"it follows from {source}")


def _only_of(field: str, *credits: str) -> Rule:
    def holds(s: Any) -> bool:
        if getattr(s, field) == getattr(type(s), field) or s.credit in credits:
            return True
        return s.credit not in CREDITS and field in find_credit(s.credit).setting_names

    must = "be {default!r} with credit={s.credit!r}"
    return Rule(field, holds, must, f"it is a setting of {', '.join(credits)}")


# fmt: off
BARL_RULES = (
    *map(_count, ("step_size", "max_answer_chars", "max_completion_length", "scoring_max_tokens")),
    Rule("max_hypotheses", lambda s: s.max_hypotheses >= 2,
         "be at least 2 (the truth and one more)", "for the truth alone set credit='progress'"),
    Rule("consistency_beta", lambda s: s.consistency_beta >= 0,
         "be in [0, inf]", "the paper's is 1.0"),
    Rule("plausibility_temperature", lambda s: s.plausibility_temperature > 0,
         "be greater than 0", "use 1.0"),
    Rule("elicitation", lambda s: s.elicitation,
         "not be empty", "the default is {default!r}"),
    Rule("prior_column", lambda s: s.hypotheses_column,
         "be None without hypotheses_column", "it has the weights of what that column lists"),
    Rule("information_weight", lambda s: 0 <= s.information_weight < math.inf,
         "be a number of at least 0", "0.0 leaves the gradient unbiased"),
    Rule("gae_lambda", lambda s: 0 <= s.gae_lambda <= 1,
         "be in [0, 1]", "1.0 is unbiased"),
)
"""The ranges of BARL's fields. [`BARLFields`] checks their types."""

CREDIT_RULES = (
    _only_of("outcome_mode", "barl"),
    _only_of("gae_lambda", "gae", "gae_posterior", "belief_critic"),
    _only_of("bootstrap_cut_off", "belief_critic"),
    _only_of("progress_space", "progress", "information_gain"),
    _only_of("gain_normalization", "information_gain"),
    _only_of("information_weight", "bayes"),
    Rule("belief", lambda s: s.belief != "both" or s.credit in _TAKE_BOTH
         or s.credit not in CREDITS, "be 'model' or 'task' with credit={s.credit!r}",
         f"'both' is for {', '.join(_TAKE_BOTH)}, which take the belief in all hypotheses"),
)
"""A setting that the credit does not take must be left at its default."""

TASK_RULES = (
    Rule("belief", lambda s: s.belief != "model" or not s.observation_likelihood,
         "be 'task' or 'both' with observation_likelihood",
         "the model's belief takes no observations"),
)
"""What the task's functions, which are arguments and no fields, ask of the fields."""

TRL_RULES = (
    Rule("beta", lambda s: s.beta >= 0,
         "be at least 0", "it weighs the KL divergence; 0.0 is without"),
    Rule("temperature", lambda s: s.temperature > 0,
         "be greater than 0", "1.0 is the model's own"),
    Rule("loss_type", lambda s: s.loss_type in _LOSS_TYPES, f"be one of {_LOSS_TYPES} with BARL",
         "others weigh whole sequences. The default is 'dapo', the paper's 'grpo'"),
    _only("importance_sampling_level", "token",
          why="one ratio per sequence would average the steps' values"),
    _only("multi_objective_aggregation", "sum_then_normalize",
          why="the outcome reward is the rewards' weighted sum"),
    Rule("off_policy_mask_threshold", lambda s: s.off_policy_mask_threshold is None,
         "be None with BARL", "TRL's mask is defined for one advantage per sequence"),
    _only("scale_rewards", "group", "true",
          why="BARL's values are not group-relative; set value_normalization instead"),
    *map(_count, _BATCH_FIELDS),
    Rule("num_generations", lambda s: s.num_generations >= 2,
         "be at least 2", "one rollout of a prompt has nothing to be compared with. The default is "
         "{default}"),
    Rule("learning_rate", lambda s: s.learning_rate >= 0,
         "be at least 0", "the default is {default}"),
    Rule("max_steps", lambda s: s.max_steps != 0,
         "be at least 1, or -1 for whole epochs", "the default is {default}"),
    Rule("num_train_epochs", lambda s: s.num_train_epochs > 0 or s.max_steps > 0,
         "be greater than 0", "the default is {default}"),
    Rule("logging_steps", lambda s: s.logging_steps > 0 or s.logging_strategy != "steps",
         "be greater than 0", "the default is {default}"),
    Rule("top_p", lambda s: 0 < s.top_p <= 1,
         "lie above 0 and not above 1", "1.0 keeps all tokens"),
    Rule("min_p", lambda s: 0 <= s.min_p <= 1,
         "lie between 0 and 1", "0.0 keeps all tokens"),
    Rule("enable_jit_checkpoint", lambda s: not s.enable_jit_checkpoint, "be False",
         "it saves in the middle of a step, from which a run cannot go on exactly. `barl train "
         "--save_on_interrupt true` ends the step first"),
    _follows("generation_batch_size", "prompts_per_rollout_batch"),
    _follows("steps_per_generation", "prompts_per_rollout_batch"),
    _follows("gradient_accumulation_steps", "rollouts_per_optimizer_step"),
)
"""The ranges of TRL's settings, and the settings of TRL that would give a token another weight than
the value of its step."""
# fmt: on


def batch_settings(settings: Mapping[str, Any], *, num_processes: int) -> BatchSettings:
    """Return the settings that decide the sizes of batches.

    Args:
        settings: Settings by their names in [`BARLConfig`].
        num_processes: The number of training processes.

    Raises:
        ValueError: The batch sizes do not divide.
    """
    sizes = {name: settings[name] for name in _BATCH_FIELDS}
    if settings["eval_strategy"] == "no":
        sizes |= {"per_device_eval_batch_size": None, "num_generations_eval": None}
    batches = BatchSettings(**sizes, num_processes=num_processes)
    if (broken := batches.broken_rule()) is not None:
        raise ValueError(broken)
    return batches
