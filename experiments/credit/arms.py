"""Arms: credits with their settings, by name, to compare them on the same rollouts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from barl_trl.credit.registry import Credit, find_credit


@dataclass(frozen=True)
class CreditArm:
    """A credit and its settings.

    Attributes:
        credit: Name or dotted path.
        consistency_beta: The posterior's beta.
        settings: Settings of the estimator, and fields of [`Credit`] that replace the credit's own.

    Raises:
        ValueError: There is no such credit, or it has no such setting.
    """

    credit: str
    consistency_beta: float = 1.0
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        credit = find_credit(self.credit)
        names = [name for name in credit._fields[1:] if name != "needs_truth"]
        allowed = [*credit.setting_names, *names]
        for name in self.settings:
            if name not in allowed:
                near = get_close_matches(name, allowed, n=1, cutoff=0.0)
                raise ValueError(
                    f"settings of {self.credit!r} must be among {allowed}, got {name!r}: did you "
                    f"mean {near[0]!r}?"
                )

    @property
    def credit_in_use(self) -> Credit:
        """The credit with the settings of this arm."""
        credit = find_credit(self.credit)
        return credit._replace(**{n: v for n, v in self.settings.items() if n in credit._fields})


ARMS = {
    "grpo": CreditArm("grpo"),
    "rloo": CreditArm("rloo"),
    "barl": CreditArm("barl"),
    "barl, sum": CreditArm("barl", settings={"answer_likelihood": "sum"}),
    "barl, beta inf": CreditArm("barl", consistency_beta=float("inf")),
    "barl, sum, beta inf": CreditArm(
        "barl", consistency_beta=float("inf"), settings={"answer_likelihood": "sum"}
    ),
    "barl, own outcomes": CreditArm("barl", settings={"outcome_mode": "hypothesis"}),
    "progress": CreditArm("progress"),
    "progress, log": CreditArm("progress", settings={"progress_space": "log"}),
    "gae, lambda .9": CreditArm("gae", settings={"gae_lambda": 0.9}),
    "gae_posterior, lambda .9": CreditArm("gae_posterior", settings={"gae_lambda": 0.9}),
    "belief_critic": CreditArm("belief_critic"),
    "belief_critic, lambda 1": CreditArm("belief_critic", settings={"gae_lambda": 1.0}),
    "belief_critic, no bootstrap": CreditArm(
        "belief_critic", settings={"bootstrap_cut_off": False}
    ),
    "belief_critic, unbiased": CreditArm(
        "belief_critic", settings={"gae_lambda": 1.0, "bootstrap_cut_off": False}
    ),
    "information_gain": CreditArm("information_gain"),
    "delta_belief": CreditArm("delta_belief"),
    "rlpr": CreditArm("rlpr"),
    "likelihood": CreditArm("likelihood"),
}
"""What the evidence compares (`python -m experiments.credit report`)."""


def file_name(arm: str) -> str:
    """Return an arm's name without spaces and commas."""
    return arm.replace(", ", "-").replace(" ", "_")
