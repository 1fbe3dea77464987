"""What BARL refuses of TRL's settings. Without TRL and torch, so that a mistake is said at once."""

from collections.abc import Mapping
from typing import Any

from .batch_sizes import BatchSettings

BATCH_FIELDS = tuple(name for name in BatchSettings._fields if name != "num_processes")
LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo")

_RANGES = (
    ("beta", lambda value: value >= 0, "at least 0", "it weighs the KL divergence; 0.0 is without"),
    ("temperature", lambda value: value > 0, "greater than 0", "1.0 is the model's own"),
)
_CLASHES = (
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
    ("off_policy_mask_threshold", [None], "TRL's mask is defined for one advantage per sequence"),
    (
        "scale_rewards",
        ["group", True],
        "BARL's values are not group-relative; set value_normalization instead",
    ),
)


def refuse_trl_settings(given: Mapping[str, Any]) -> None:
    """Refuse settings under which a token's weight would not be its step's value.

    Args:
        given: TRL's fields; one that is None or lacks has its default. A text stands for a value.

    Raises:
        ValueError: One of them is out of range, or contradicts BARL.
    """
    known = {name: value for name, value in given.items() if value is not None}
    for name, is_allowed, rule, usual in _RANGES:
        if name in known and not is_allowed(known[name]):
            raise ValueError(f"{name} must be {rule}, got {known[name]}: {usual}.")
    if known.get("loss_type", "dapo") not in LOSS_TYPES:
        raise ValueError(
            f"loss_type must be one of {LOSS_TYPES} with BARL, got {known['loss_type']!r}: others "
            "weigh whole sequences. The default is 'dapo', the paper's 'grpo'."
        )
    for name, allowed, reason in _CLASHES:
        if name in known and str(known[name]).lower() not in [str(a).lower() for a in allowed]:
            raise ValueError(
                f"{name} must be {allowed[0]!r} with BARL, got {known[name]!r}: {reason}."
            )


def batch_settings(settings: Mapping[str, Any], *, num_processes: int) -> BatchSettings:
    """Return the settings that decide the sizes of batches.

    Args:
        settings: TRL's fields and BARL's.
        num_processes: Processes, one for each device.
    """
    given = {name: settings[name] for name in BATCH_FIELDS}
    if settings["eval_strategy"] == "no":
        given |= {"per_device_eval_batch_size": None, "num_generations_eval": None}
    return BatchSettings(**given, num_processes=num_processes)
