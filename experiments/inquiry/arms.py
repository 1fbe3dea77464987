"""Arms: what weighs the turns, and the controls that ask where a gain comes from."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from barl_trl.credit.bayes import bayes as bayes_values
from barl_trl.credit.bayes import belief_entropy
from barl_trl.credit.outcome import for_all_steps, standardized_in_group
from barl_trl.credit.registry import Credit
from barl_trl.credit.rollouts import ScoredRollouts, at_last_state, group_sums
from barl_trl.posterior import StepValues

_HERE = "experiments.inquiry.arms"


@dataclass(frozen=True)
class Arm:
    """Fields of `BARLConfig` that make an arm, and what it is called in tables."""

    title: str
    fields: dict[str, Any] = field(default_factory=dict)
    needs_truth: bool = True
    """Whether the weights read the row's solution, which a redrawn secret is not."""
    looks_ahead: bool = False
    """Whether the credit reads what else might have been replied."""
    weight_falls: bool = False
    """Whether the information weight falls to 0 over training, by equal parts at each step."""
    taught: float = 0.0
    """Weight of the cross-entropy of the answer to the last belief."""


def _task(title: str, credit: str, *, needs_truth: bool = True, **fields: Any) -> Arm:
    return Arm(title, {"credit": credit, "belief": "task"} | fields, needs_truth)


def _model(title: str, credit: str) -> Arm:
    return Arm(title, {"credit": credit})


def _bayes(weight: float, baseline: str = "leave_one_out") -> Arm:
    options = {"information_weight": weight}
    title = f"bayes, c = {weight:g}, {baseline}"
    fields = {"credit_options": options, "credit_baseline": baseline}
    return _task(title, "bayes", needs_truth=False, **fields)


def _ahead(title: str, credit: str) -> Arm:
    arm = _task(title, f"experiments.inquiry.ahead.{credit}", needs_truth=False)
    return replace(arm, looks_ahead=True)


def _turns(baseline: str) -> Arm:
    title = f"return-to-go, baseline {baseline}"
    return _task(title, "turns", needs_truth=False, credit_baseline=baseline)


ARMS = {
    "grpo": _task("GRPO", "grpo", needs_truth=False),
    "rloo": _task("RLOO", "rloo", needs_truth=False),
    "progress-model": _model("progress, model's belief", "progress"),
    "progress-task": _task("progress, task's belief", "progress"),
    "barl-model": _model("BARL, model's belief", "barl"),
    "barl-task": _task("BARL, task's belief", "barl"),
    "delta_belief": _task("delta_belief", "delta_belief"),
    "information_gain-joint": _task("information gain, joint", "information_gain"),
    "information_gain-separate": _task(
        "information gain, separate",
        "information_gain",
        credit_options={"gain_normalization": "separate"},
    ),
    "belief_critic": _task("belief critic", "belief_critic"),
    "bayes-0": _bayes(0.0),
    "bayes-0.3": _bayes(0.3),
    "bayes-1": _bayes(1.0),
    "bayes-0-step": _bayes(0.0, "step"),
    "bayes-0.3-step": _bayes(0.3, "step"),
    "bayes-1-step": _bayes(1.0, "step"),
    "bayes-1-falls": replace(
        _bayes(1.0, "step"),
        title="bayes, c falls from 1 to 0, step",
        weight_falls=True,
    ),
    "bayes-1-step-taught": replace(
        _bayes(1.0, "step"),
        title="bayes, c = 1, step, taught to conclude",
        taught=0.3,
    ),
    "bayes-1-belief": _bayes(1.0, "belief"),
    "ahead-own": _ahead("looking ahead, c = 1, belief", "looking_ahead"),
    "ahead-value": _ahead("looking ahead, value, belief", "value"),
    "bayes-model": _task(
        "bayes, c = 0, the model's belief",
        "bayes",
        needs_truth=False,
        belief="model",
        credit_baseline="leave_one_out",
        credit_options={"information_weight": 0.0},
    ),
    "turns-step": _turns("step"),
    "turns-state": _turns("state"),
    "rloo-turnless": _task("RLOO without rewards of turns", f"{_HERE}.alone", needs_truth=False),
    # controls
    "final-belief": _task("control: last belief in the truth", f"{_HERE}.final_belief"),
    "outcome-batch": _task("control: progress without belief", f"{_HERE}.outcome_batch"),
    "delta_belief-0": _task("control: delta_belief without belief", f"{_HERE}.delta_outcome"),
    "information-alone": _task(
        "control: information without outcome", f"{_HERE}.information", needs_truth=False
    ),
    "rescaled": _task("control: RLOO, steps rescaled", f"{_HERE}.rescaled", needs_truth=False),
}
"""The arms by name. Every one gets the same rollouts, candidates and rewards."""


def _final_belief(rollouts: ScoredRollouts) -> StepValues:
    """Give all steps the belief in the truth before the answer: one value per rollout."""
    value = at_last_state(rollouts.belief, rollouts.state_mask)[:, 0].to(rollouts.outcomes.dtype)
    return for_all_steps(value, rollouts)


def _outcome(rollouts: ScoredRollouts) -> StepValues:
    """Give all steps the outcome."""
    return for_all_steps(rollouts.outcomes, rollouts)


def _delta_outcome(rollouts: ScoredRollouts) -> StepValues:
    """Standardise the outcome at each step, among the group's rollouts that have the step."""
    counted = rollouts.step_mask & rollouts.is_judged[:, None]
    values = [
        standardized_in_group(rollouts.outcomes, rollouts.groups, exists) for exists in counted.T
    ]
    closing = standardized_in_group(rollouts.outcomes, rollouts.groups, rollouts.is_judged)
    return StepValues(torch.stack(values, dim=1), closing)


def _information(rollouts: ScoredRollouts) -> StepValues:
    """Give each step the information that it and later ones gain, without any outcome."""
    entropy = belief_entropy(rollouts)
    gained = entropy[:, :-1] - at_last_state(entropy, rollouts.state_mask)[:, None]
    return StepValues(gained * rollouts.step_mask, torch.zeros_like(rollouts.outcomes))


def _rescaled(rollouts: ScoredRollouts) -> StepValues:
    """Give each step the relative outcome, in the size of the Bayes return at that step.

    The signs are plain RL's. The size is the root mean square of what the Bayes return with c = 1
    gives the steps of that number, relative to the group's mean.
    """
    values = bayes_values(rollouts, information_weight=1.0).steps
    exists = rollouts.step_mask.to(values.dtype)
    outcomes = rollouts.outcomes[:, None].expand_as(values)
    sizes = [
        ((_relative(of, exists, rollouts.groups) ** 2).sum(0) / exists.sum(0).clamp(min=1)).sqrt()
        for of in (values, outcomes)
    ]
    ratio = sizes[0] / sizes[1].clamp(min=1e-4)
    relative = _relative(outcomes, exists, rollouts.groups)
    closing = _relative(rollouts.outcomes[:, None], torch.ones(len(relative), 1), rollouts.groups)
    return StepValues(relative * ratio, closing[:, 0])


def _relative(values: torch.Tensor, exists: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Return values relative to the group's mean at the same step; 0 where there is none."""
    count = group_sums(exists, groups).clamp(min=1)
    return (values - group_sums(values * exists, groups) / count) * exists


final_belief = Credit(_final_belief, credit_baseline="leave_one_out", value_normalization="none")
outcome_batch = Credit(_outcome, hypotheses="truth")
delta_outcome = Credit(_delta_outcome, value_normalization="none")
information = Credit(
    _information,
    credit_baseline="leave_one_out",
    value_normalization="none",
    needs_truth=False,
)
rescaled = Credit(_rescaled, value_normalization="none", needs_truth=False)
alone = Credit(
    _outcome,
    hypotheses="none",
    credit_baseline="leave_one_out",
    value_normalization="none",
    needs_truth=False,
    turn_rewards="own",  # it reads none
)
