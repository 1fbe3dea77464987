"""What [`HubMixin`] adds to TRL's model card: settings, data and results."""

from collections.abc import Mapping, Sequence
from typing import Any

from trl import GRPOConfig

from ...report.markdown import code, escape
from ..config import BARLConfig, own_fields

_SETTINGS = (
    "step_size",
    "consistency_beta",
    "num_generations",
    "generation_batch_size",
    "max_completion_length",
    "temperature",
    "learning_rate",
    "beta",
    "loss_type",
    "num_iterations",
    "seed",
)
"""Settings that every card names. A card also names BARL's settings that are not the default."""

_RESULTS = ("reward", "rewards/", "completions/mean_length", "barl/")
_RESULTS += ("eval_reward", "eval_rewards/", "eval_accuracy")
"""Prefixes of the names of metrics that a card has."""
_NO_RESULTS = ("barl/scoring_", "barl/dropped/", "barl/check_", "barl/recording_")
"""Longer prefixes of the names of metrics that a card leaves out."""

_MEASURED_ON = (
    "Metrics that begin with `eval_` were measured on the evaluation data or the benchmarks, "
    "the others on the rollouts of training.\n\n"
)

_PLACE = "### Framework versions"  # a heading in TRL's template; sections are added before it


def card_settings(args: BARLConfig, *, is_barl: bool = True) -> dict[str, Any]:
    """Return the settings of a run that its card names.

    Args:
        args: The settings of the run.
        is_barl: Whether BARL's trainer trained; if not, BARL's settings are left out.
    """
    changed = [one.name for one in own_fields() if getattr(args, one.name) != one.default]
    return {
        name: getattr(args, name)
        for name in dict.fromkeys([*_SETTINGS, *changed])
        if is_barl or name in GRPOConfig.__dataclass_fields__
    }


def add_sections(
    card: str,
    *,
    model: str,
    reward: str,
    settings: Mapping[str, Any],
    data: Mapping[str, Any],
    log_history: Sequence[Mapping[str, Any]],
    step: int,
) -> str:
    """Put tables of settings, data and results into a model card.

    Args:
        card: TRL's card.
        model: Name of the model that was trained.
        reward: Sum of the reward functions' names with their weights.
        settings: Setting name -> its value.
        data: Property of the data -> its value, such as the number of rows.
        log_history: What was logged, of which the table of results has the last values. Without
            results there is no such table.
        step: Number of optimizer steps after which the results were logged.

    Returns:
        The card with the tables before its framework versions, or at its end without these.
    """
    # TRL writes this link if the model is a local folder
    card = card.replace("[None](https://huggingface.co/None)", code(model))
    sections = _table("Settings", {"model": model, "reward": reward, **settings}) + _table(
        "Data", data
    )
    if results := _last_results(log_history):
        sections += _table(f"Results, as last logged in {step} steps", results) + _MEASURED_ON
    before, place, after = card.partition(_PLACE)
    return f"{before.rstrip()}\n\n{sections}{place}{after}"


def _last_results(log_history: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the last value of each metric that a card names."""
    return {
        name: f"{value:.4g}"
        for entry in log_history
        for name, value in entry.items()
        if value is not None
        and (name.startswith(_RESULTS) or name.endswith("/accuracy"))
        and not name.startswith(_NO_RESULTS)
    }


def _table(title: str, rows: Mapping[str, Any]) -> str:
    lines = [f"### {title}", "", "| | |", "|---|---|"]
    for name, value in rows.items():
        text = value if isinstance(value, str) and value.isprintable() else repr(value)
        lines.append(f"| {escape(name)} | {code(text, in_table=True)} |")
    return "\n".join(lines) + "\n\n"
