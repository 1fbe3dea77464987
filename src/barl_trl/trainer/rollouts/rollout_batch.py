"""`RolloutBatch` holds the state of a rollout batch between TRL's calls."""

import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ...hypotheses import HypothesisSet
from .hypothesis_scorer import Generated


@dataclass
class RolloutBatch:
    """This process's rollouts, which the overrides of a [`BARLTrainer`] fill in step by step.

    TRL makes these calls in this order, and the override of each call fills these fields:

    | call | fills |
    |---|---|
    | `_generate_and_score_completions(inputs)` begins | `inputs`, `start`, `began` |
    | `_generate(prompts)` | `generated`, `asks_for_old_logps`; `scored` if the truths are known |
    | `_get_per_token_logps_and_entropies(...)`, if TRL needs old log-probabilities | |
    | `_calculate_rewards(...)` | `reasons`, `rewards_per_func` |
    | `_generate_and_score_completions(inputs)` goes on | `scored`, if it is still None |

    Attributes:
        inputs: Row of the data set of each rollout.
        start: Index of the first rollout among those of all processes.
        generated: The tokens and texts of the rollouts.
        asks_for_old_logps: Whether TRL's next forward of the policy computes the old
            log-probabilities, and the pass that scores the answers can yield them instead.
        scored: The hypotheses of the rollouts and their log-likelihoods, a [`Scored`]; None before
            they are scored.
        reward_weights: Weight of each reward function, (number of reward functions,).
        rewards_per_func: Rewards of all processes' rollouts, (N, number of reward functions).
        reasons: The reason of the grader's verdict on each rollout; None without a grader.
        began: Time at which the batch began, in seconds of `time.perf_counter`.
    """

    inputs: list[dict[str, Any]]
    start: int
    generated: Generated = field(default_factory=lambda: Generated([], [], []))
    asks_for_old_logps: bool = False
    scored: Any = None
    reward_weights: Any = None
    rewards_per_func: Any = None
    reasons: list[str] | None = None
    began: float = field(default_factory=time.perf_counter)

    def local(self, values: Tensor) -> Tensor:
        """Return this process's part (B, ...) of a tensor (N, ...) of all processes' rollouts."""
        return values[self.start : self.start + len(self.inputs)]

    @property
    def outcomes(self) -> Tensor:
        """Outcome rewards of all processes' rollouts, (N,), NaN for a missing one."""
        return self.outcome_rewards(self.reward_weights)

    def outcome_rewards(self, reward_weights: Tensor) -> Tensor:
        """Return the outcome rewards of all processes' rollouts, (N,).

        The outcome reward is NaN where all reward functions returned NaN.

        Args:
            reward_weights: Weight of each reward function, (number of reward functions,).
        """
        rewards: Tensor = self.rewards_per_func
        unscorable = rewards.isnan().all(dim=1)
        weighted = rewards * reward_weights.to(rewards.device)
        return weighted.nansum(dim=1).masked_fill(unscorable, torch.nan)

    def costs(self, reward_weights: Tensor, is_cost: Tensor) -> Tensor:
        """Return the part of the outcome rewards that is costs, (N,).

        Args:
            reward_weights: Weight of each reward function, (number of reward functions,).
            is_cost: Whether each reward function is a cost.
        """
        weights = (reward_weights.cpu() * is_cost).to(self.rewards_per_func.device)
        return (self.rewards_per_func * weights).nansum(dim=1)

    def weighable_tokens(self, output: dict[str, Any]) -> Tensor:
        """Return the mask (B, L) of the tokens that may have a weight.

        These are the tokens that the model generated, up to the one that ends the turn.

        Args:
            output: What TRL's `_generate_and_score_completions` returned.
        """
        # a `rollout_func` may mark tokens that the model did not generate
        completion_mask = output["completion_mask"] * output.get("tool_mask", 1)
        lengths = torch.tensor([ends[-1] if ends else 0 for ends in self.scored.step_ends])
        places = torch.arange(completion_mask.shape[1])
        in_turn = (places <= lengths[:, None]).to(completion_mask.device)
        return completion_mask.bool() & in_turn


def judged(sets: list[HypothesisSet | None], outcomes: Tensor) -> Tensor:
    """Return the mask (N,) of the rollouts that have a usable truth and a finite outcome.

    Args:
        sets: Hypothesis set of each rollout; None where the truth is unusable.
        outcomes: Outcome reward of each rollout, (N,), NaN for a missing outcome.
    """
    has_truth = torch.tensor(
        [hypotheses is not None for hypotheses in sets], device=outcomes.device
    )
    return has_truth & outcomes.isfinite()
