"""Arms: credits with their settings, by name, to compare them on the same rollouts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from barl_trl.credit.registry import Credit, find_credit
from barl_trl.credit.rollouts import ScoredRollouts
from barl_trl.credit.token_weights import weigh_steps
from barl_trl.posterior import StepValues


@dataclass(frozen=True)
class CreditArm:
    """A credit and its settings.

    Attributes:
        credit: Name or dotted path.
        consistency_beta: That of the posterior.
        settings: Those of the estimator, and those fields of [`Credit`] that are not to be its own.

    Raises:
        ValueError: There is no such credit, or it has no such setting.
    """

    credit: str
    consistency_beta: float = 1.0
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        found = find_credit(self.credit)
        allowed = [*found.setting_names, *found._fields[1:]]
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
        found = find_credit(self.credit)
        return found._replace(**{n: v for n, v in self.settings.items() if n in found._fields})

    def values(self, rollouts: ScoredRollouts) -> StepValues:
        """Return the values of steps, as [`weigh_steps`]."""
        return weigh_steps(rollouts, self.credit_in_use, self.settings)


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
