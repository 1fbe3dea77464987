"""What states are worth: the share of sampled continuations that end right."""

from collections.abc import Mapping
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from barl_trl.steps import spread_over_tokens

from ...sampling import continued_texts
from ..batches import CreditTask, RolloutTokens

ROWS = 512
"""Continuations that are sampled together."""


def monte_carlo_weights(
    model: nn.Module,
    task: CreditTask,
    batch: RolloutTokens,
    solutions: list[str],
    *,
    number: int,
    generator: torch.Generator,
) -> Float[Tensor, "batch token"]:
    r"""Return the advantages of the steps, $V(t+1) - V(t)$, and of ending the turn, $v - V(T)$.

    V is the value of a state: the mean outcome of the continuations that are sampled from it. An
    estimator of credit that knew the values would return these weights.

    Args:
        model: The policy, in evaluation mode.
        task: What judges the continuations.
        batch: The rollouts.
        solutions: True answer of each rollout.
        number: Continuations of a state.
        generator: Source of the samples' draws, on the CPU.
    """
    states: dict[tuple[int, ...], tuple[int, str]] = {}
    keys: list[list[tuple[int, ...]]] = []
    for row, (prompt, completion) in enumerate(
        zip(batch.prompt_ids, batch.completion_ids, strict=True)
    ):
        keys.append([(*prompt, *completion[:cut]) for cut in (0, *batch.step_ends[row])])
        states |= dict.fromkeys(keys[-1], (len(prompt), solutions[row]))
    values = _state_values(model, task, states, number, generator)
    of_states = [[values[key] for key in row] for row in keys]
    width = max(map(len, of_states)) - 1
    steps = torch.tensor(
        [[b - a for a, b in pairwise(row)] + [0.0] * (width + 1 - len(row)) for row in of_states]
    )
    last = torch.tensor([row[-1] for row in of_states])
    mask = batch.token_mask.cpu()
    weights = spread_over_tokens(
        steps, batch.step_ends, batch.outcomes.cpu() - last, num_tokens=mask.shape[1]
    )
    return weights.masked_fill(~mask, 0.0).to(batch.outcomes.device)


def _state_values(
    model: nn.Module,
    task: CreditTask,
    states: Mapping[tuple[int, ...], tuple[int, str]],
    number: int,
    generator: torch.Generator,
) -> dict[tuple[int, ...], float]:
    """Return the mean outcome after each state, given its prompt's length and true answer."""
    starts = sorted([*states] * number, key=len)
    lengths = [states[start][0] for start in starts]
    limits = [task.max_new_tokens - len(s) + n for s, n in zip(starts, lengths, strict=True)]
    texts = continued_texts(
        model,
        task.tokenizer,
        starts,
        lengths,
        max_new_tokens=limits,
        rows=ROWS,
        end_ids=task.end_ids,
        generator=generator,
    )
    rewards = task.reward(list(texts), [states[start][1] for start in starts])
    means = dict.fromkeys(states, 0.0)
    for start, reward in zip(starts, rewards, strict=True):
        means[start] += float(reward or 0) / number
    return means
