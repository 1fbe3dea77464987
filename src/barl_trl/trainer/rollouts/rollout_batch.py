"""A rollout batch on its way through TRL's calls."""

import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ...hypotheses import HypothesisSet
from .hypothesis_scorer import Generated


@dataclass
class RolloutBatch:
    """What the overrides of a [`BARLTrainer`] know of this process's rollouts.

    TRL makes these calls in this order, and each override fills its fields:

    | call | fills |
    |---|---|
    | `_generate_and_score_completions(inputs)` begins | `inputs`, `start`, `began` |
    | `_generate(prompts)` | `generated`, `asks_for_old_logps`; `scored` if the truths are known |
    | `_get_per_token_logps_and_entropies(...)`, if TRL needs old log-probabilities | |
    | `_calculate_rewards(...)` | `reasons`, `rewards_per_func` |
    | `_generate_and_score_completions(inputs)` goes on | `scored`, if it is still None |

    Attributes:
        inputs: The rows of the data set, one for each rollout.
        start: Index of the first rollout among those of all processes.
        generated: The rollouts' tokens.
        asks_for_old_logps: Whether TRL's next forward is the policy's, for the old
            log-probabilities, and the pass that scores the answers can yield them.
        scored: The rollouts' hypotheses and their log-likelihoods: [`Scored`], or None as yet.
        rewards_per_func: Rewards of all processes' rollouts, (N, number of reward functions).
        reasons: What the grader decided each rollout by; None where no grader is asked.
        began: When the batch began, by `time.perf_counter`.
    """

    inputs: list[dict[str, Any]]
    start: int
    generated: Generated = field(default_factory=lambda: Generated([], [], []))
    asks_for_old_logps: bool = False
    scored: Any = None
    rewards_per_func: Any = None
    reasons: list[str] | None = None
    began: float = field(default_factory=time.perf_counter)

    def local(self, values: Tensor) -> Tensor:
        """Return the values of this process's rollouts among those of all processes."""
        return values[self.start : self.start + len(self.inputs)]

    def outcome_rewards(self, reward_weights: Tensor) -> Tensor:
        """Return the outcome reward of all processes' rollouts, (N,); NaN if all rewards are."""
        rewards: Tensor = self.rewards_per_func
        unscorable = rewards.isnan().all(dim=1)
        weighted = rewards * reward_weights.to(rewards.device)
        return weighted.nansum(dim=1).masked_fill(unscorable, torch.nan)

    def weighable_tokens(self, output: dict[str, Any]) -> Tensor:
        """Say which tokens (B, L) may have a weight: the model's, up to the end of the turn."""
        # a `rollout_func` may mark tokens that are not the model's
        completion_mask = output["completion_mask"] * output.get("tool_mask", 1)
        lengths = torch.tensor([ends[-1] if ends else 0 for ends in self.scored.step_ends])
        places = torch.arange(completion_mask.shape[1])
        in_turn = (places <= lengths[:, None]).to(completion_mask.device)
        return completion_mask.bool() & in_turn


def judged(sets: list[HypothesisSet | None], outcomes: Tensor) -> Tensor:
    """Say which rollouts have a usable truth and an outcome."""
    has_truth = torch.tensor([found is not None for found in sets], device=outcomes.device)
    return has_truth & outcomes.isfinite()
