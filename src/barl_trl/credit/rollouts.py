"""What an estimator of credit gets, and the sums and differences that estimators share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

LOG_FLOOR = -100.0
"""Lowest log-likelihood, in nats, where logarithms are weights: they must be finite."""


@dataclass(frozen=True)
class ScoredRollouts:
    """What one scoring pass says of B rollouts: whole groups, from all processes.

    Steps and states are those of [`barl_trl.posterior`]: step t leads from state t to state t + 1.
    Padding is 0.

    Attributes:
        outcomes: Outcome reward v of each rollout; 0 where `is_judged` is false.
        is_judged: The rollouts that have a usable truth and an outcome, or, for a credit that needs
            neither, hypotheses. The others get no weight, and must not change the weights of the
            judged ones.
        is_cut_off: The rollouts that reached the longest completion before their end.
        groups: Number of each rollout's prompt.
        state_mask: The states that exist.
        answer_logps: Log-likelihood of each hypothesis at each state, in nats; hypothesis 0 is the
            truth. H is 1 for a credit that needs the truth alone, 0 for one that needs none.
        hypothesis_mask: The hypotheses that exist.
        belief: The posterior over the hypotheses, eq. (adv_algo).
        members: Index of the hypothesis that each rollout answers; None if it answers none.
        rewards: Rewards that each hypothesis predicts for each step; None: the progress rewards.
        outcomes_under: Outcome reward v_i that the rollout's answer would have if hypothesis i were
            true; None: 1 for the hypothesis that it answers, 0 for the others.
        costs: The part of the outcome reward that does not depend on what is true, such as a price
            for each question; None: there is none.
        turn_rewards: Reward r_t that the task, or a process reward, gives each step, or one turn
            without words, which has no step; None: none.
        states: Number of the state in which each step begins. Steps of a prompt's rollouts that
            begin behind the same observation have the same; None: it is not known.
    """

    outcomes: Float[Tensor, " batch"]
    is_judged: Bool[Tensor, " batch"]
    is_cut_off: Bool[Tensor, " batch"]
    groups: Int[Tensor, " batch"]
    state_mask: Bool[Tensor, "batch state"]
    answer_logps: Float[Tensor, "batch state hypothesis"]
    hypothesis_mask: Bool[Tensor, "batch hypothesis"]
    belief: Float[Tensor, "batch state hypothesis"]
    members: Sequence[int | None]
    rewards: Float[Tensor, "batch step hypothesis"] | None = None
    outcomes_under: Float[Tensor, "batch hypothesis"] | None = None
    costs: Float[Tensor, " batch"] | None = None
    turn_rewards: Float[Tensor, "batch turn"] | None = None
    states: Int[Tensor, "batch step"] | None = None

    def rows(self, start: int, stop: int) -> "ScoredRollouts":
        """Return some of the rollouts, which need not be whole groups."""
        columns: Any = {name: one for name, one in vars(self).items() if one is not None}
        return replace(self, **{name: columns[name][start:stop] for name in columns})

    @property
    def step_mask(self) -> Bool[Tensor, "batch step"]:
        """The steps that exist."""
        return self.state_mask[:, 1:]

    @property
    def outcomes_if_true(self) -> Float[Tensor, "batch hypothesis"]:
        """Outcome reward v_i if hypothesis i were true, without costs."""
        return is_answered(self) if self.outcomes_under is None else self.outcomes_under

    @property
    def earned(self) -> Float[Tensor, "batch turn"]:
        """The `turn_rewards`; 0 in padding, where a rollout is not judged, and without any."""
        given, number = self.turn_rewards, self.step_mask.sum(dim=1)
        if given is None:
            given = self.outcomes.new_zeros(len(number), max(1, self.step_mask.shape[1]))
        places = torch.arange(given.shape[1], device=given.device)
        exists = (places < number.clamp(min=1)[:, None]) & self.is_judged[:, None]
        return given.to(self.outcomes.dtype).where(exists, 0.0)

    @property
    def step_rewards(self) -> Float[Tensor, "batch step"]:
        """What each step earned; 0 in padding."""
        return self.earned[:, : self.step_mask.shape[1]].where(self.step_mask, 0.0)

    @property
    def last_rewards(self) -> Float[Tensor, " batch"]:
        """What the last step earned, or the turn without words of a rollout that has no step."""
        last = (self.step_mask.sum(dim=1, keepdim=True) - 1).clamp(min=0)
        return self.earned.gather(1, last)[:, 0]

    @property
    def truth_logps(self) -> Float[Tensor, "batch state"]:
        """Log-likelihood of the truth at each state, at most 0; 0 in padding."""
        return self.answer_logps[..., 0].clamp(max=0).masked_fill(~self.state_mask, 0.0)

    @property
    def truth_plausibility(self) -> Float[Tensor, "batch state"]:
        """Plausibility p_0(t) of the truth at each state; 0 in padding."""
        return self.truth_logps.exp() * self.state_mask


def at_last_state(
    values: Float[Tensor, "batch state *rest"], state_mask: Bool[Tensor, "batch state"]
) -> Float[Tensor, "batch *rest"]:
    """Return each rollout's value, or values, at its last state."""
    return values[torch.arange(len(values), device=values.device), state_mask.sum(dim=1) - 1]


def is_answered(rollouts: ScoredRollouts) -> Float[Tensor, "batch hypothesis"]:
    """Return 1 for the hypothesis that each rollout answers, 0 for the others."""
    answered = torch.zeros_like(rollouts.hypothesis_mask, dtype=rollouts.outcomes.dtype)
    for row, member in zip(answered, rollouts.members, strict=True):
        if member is not None:
            row[member] = 1.0
    return answered


def differences(
    values: Float[Tensor, "batch state"], step_mask: Bool[Tensor, "batch step"]
) -> Float[Tensor, "batch step"]:
    """Return what each step changes, `values(t + 1) - values(t)`; 0 in padding."""
    return torch.where(step_mask, values[:, 1:] - values[:, :-1], 0.0)


def group_sums(
    values: Float[Tensor, "batch *rest"], groups: Int[Tensor, " batch"]
) -> Float[Tensor, "batch *rest"]:
    """Return, for each row, the sum over the rows of its group."""
    _, index = groups.unique(return_inverse=True)
    sums = values.new_zeros(int(index.max()) + 1, *values.shape[1:])
    return sums.index_add_(0, index, values)[index]
