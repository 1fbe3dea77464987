"""Which settings change nothing under the method that is trained."""

from .barl_fields import BARLFields, barl_fields, default_of

USED_BY_GRPO = (
    "max_completion_length",
    "vllm_importance_sampling_mode",
    "prompts_per_rollout_batch",
    "rollouts_per_optimizer_step",
    "extraction",
    "solution_column",
    "overwrite_output_dir",
    "allow_inexact_resume",
)
"""Fields that TRL's own trainer takes, too."""

USED_WITH_ROLLOUTS = ("consistency_beta", "max_hypotheses")
USED_WITH_SCORES = (
    "elicitation",
    "answer_likelihood",
    "plausibility_temperature",
    "scoring_method",
    "scoring_max_tokens",
)
"""Fields that change nothing if only the truth is scored, or no answer at all."""


def unused_settings(args: BARLFields, *, is_grpo: bool = False) -> str | None:
    """Return a line that names the settings that change nothing, if there are any.

    Args:
        args: The settings.
        is_grpo: Whether TRL's own trainer trains.
    """
    hypotheses = args.own_credit.hypotheses
    unused = [known.name for known in barl_fields() if known.name not in USED_BY_GRPO]
    if not is_grpo:
        unused = [
            *(USED_WITH_ROLLOUTS if hypotheses != "rollouts" else ()),
            *(USED_WITH_SCORES if hypotheses == "none" else ()),
        ]
    values = {name: getattr(args, name) for name in unused}
    given = [f"{name}={value!r}" for name, value in values.items() if value != default_of(name)]
    trained = "method='grpo'" if is_grpo else f"credit={args.credit!r}"
    return f"{trained} does not use {', '.join(given)}." if given else None
