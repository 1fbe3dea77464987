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
    answer_likelihood: str | None = None
    """None: the credit's own."""

    @property
    def credit_in_use(self) -> Credit:
        """The credit with the likelihood of this arm."""
        credit = find_credit(self.credit)
        likelihood: Any = self.answer_likelihood or credit.answer_likelihood
        return credit._replace(answer_likelihood=likelihood)


INF = float("inf")
ARMS = {
    "grpo": Arm("grpo"),
    "rloo": Arm("rloo"),
    "barl": Arm("barl"),
    "barl, sum": Arm("barl", answer_likelihood="sum"),
    "barl, beta inf": Arm("barl", consistency_beta=INF),
    "barl, own outcomes": Arm("barl", {"outcome_mode": "hypothesis"}),
    "progress": Arm("progress"),
    "progress, log": Arm("progress", {"progress_space": "log"}),
    "gae, lambda .9": Arm("gae", {"gae_lambda": 0.9}),
    "belief_critic": Arm("belief_critic"),
    "belief_critic, no bootstrap": Arm("belief_critic", {"bootstrap_cut_off": False}),
    "belief_critic, unbiased": Arm(
        "belief_critic", {"gae_lambda": 1.0, "bootstrap_cut_off": False}
    ),
    "information_gain": Arm("information_gain"),
    "delta_belief": Arm("delta_belief"),
}
"""What docs/evidence.md compares."""


def file_name(arm: str) -> str:
    """Return an arm's name without spaces and commas."""
    return arm.replace(", ", "-").replace(" ", "_")
