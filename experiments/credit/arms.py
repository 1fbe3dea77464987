"""Arms: credits with their settings, by name, to compare them on the same rollouts."""

from typing import Any, NamedTuple

from barl_trl.credit import Credit, find_credit


class Arm(NamedTuple):
    """A credit and its settings."""

    credit: str
    """Name or dotted path."""
    options: dict[str, Any] = {}
    """Settings of its estimator: `credit_options` of `BARLConfig`."""
    consistency_beta: float = 1.0

    @property
    def credit_in_use(self) -> Credit:
        """The credit that the name stands for."""
        return find_credit(self.credit)


INF = float("inf")
ARMS = {
    "grpo": Arm("grpo"),
    "rloo": Arm("rloo"),
    "barl": Arm("barl"),
    "barl, beta inf": Arm("barl", consistency_beta=INF),
    "barl, own outcomes": Arm("barl", {"outcome_mode": "hypothesis"}),
    "progress": Arm("progress"),
    "belief_critic": Arm("belief_critic"),
    "information_gain": Arm("information_gain"),
    "delta_belief": Arm("delta_belief"),
}
"""What docs/evidence.md compares."""


def file_name(arm: str) -> str:
    """Return an arm's name without spaces and commas."""
    return arm.replace(", ", "-").replace(" ", "_")
