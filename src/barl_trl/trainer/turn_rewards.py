"""Rewards of turns: who tells them, and in which state each step begins.

A function, a field of a `rollout_func` or the environment tells one number for each turn, or for
each step. They are the r_t of the paper's Q, and need no hypotheses, truths or belief.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from hashlib import blake2b
from itertools import islice
from statistics import fmean
from typing import Any

import torch
from accelerate.utils import gather_object
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..steps import Turn
from .evidence import Step

FIELD = "turn_rewards"
"""Field of a `rollout_func`, and attribute of an environment, with a number for each turn."""
METHOD = "get_turn_rewards"
"""Method of an environment that returns them."""
_FAILED = "{'error': "
"""With this TRL begins the result of a call that failed, which an environment may not know of."""
OWN_HYPOTHESES, OWN_PRIOR = "_hypotheses", "_prior"
"""Columns of rows for what environments say of their tasks, where no column of the data has it."""


def environments_rewards(
    environments: Sequence[Any] | None, completions: Sequence[Any]
) -> list[Any] | None:
    """Return what environments tell of the rewards of their turns; None if none does, anywhere.

    All processes must call this together: each may have environments of other kinds.

    As many numbers as calls of tools, or as calls that did not fail, are one for each of these: a
    turn gets the sum of its calls'.
    """
    if environments is None:
        return None
    tells = any(hasattr(one, METHOD) or hasattr(one, FIELD) for one in environments)
    if not any(gather_object([tells])):
        return None
    told = [_asked(one, METHOD if hasattr(one, METHOD) else FIELD) for one in environments]
    return [_summed_over_calls(*pair) for pair in zip(told, completions, strict=True)]


def _asked(environment: Any, name: str) -> Any:
    """Return what an attribute, or a method without arguments, tells; arrays as lists."""
    told = getattr(environment, name, None)
    told = told() if callable(told) else told
    return told.tolist() if hasattr(told, "tolist") else told


def _summed_over_calls(numbers: Any, completion: Any) -> Any:
    calls, reached = [], []  # of each turn: its calls, and those that reached their tool
    for message in () if isinstance(completion, str) else completion:
        if message.get("role") == "assistant":
            calls.append(len(message.get("tool_calls") or ()))
            reached.append(0)
        elif reached:
            reached[-1] += not str(message.get("content")).startswith(_FAILED)
    number = len(numbers) if isinstance(numbers, list | tuple) else -1
    if number not in (sum(calls), sum(reached)):
        return numbers
    told = iter(numbers)
    turns = [islice(told, n) for n in (calls if number == sum(calls) else reached)]
    turns = [[x for x in turn if x is not None] for turn in turns]
    return [sum(turn) if turn else None for turn in turns]


class TurnReturn:
    """The sum of the rewards of each rollout's turns, as a reward function of TRL."""

    __name__ = FIELD
    rewards: list[list[float]] | None = None

    def __call__(self, completions: Sequence[Any], **kwargs: Any) -> list[float | None]:
        """Return the sums of the rollouts that were generated last; None without any."""
        if self.rewards is None:
            return [None] * len(completions)
        return [math.fsum(x for x in row if not math.isnan(x)) for row in self.rewards]


def rewards_of_steps(
    told: Sequence[Any],
    step_ends: Sequence[Sequence[int]],
    turns: Sequence[Sequence[Turn]],
    *,
    is_first: bool = False,
) -> tuple[list[list[float]], int]:
    """Return the reward of each step of each rollout, NaN where none is told; and what is unusable.

    A rollout's list has a number for each step; or for each turn, whose last step gets it, and may
    have none for the last turns. None is no reward. A rollout without a step has one reward.

    Raises:
        ValueError: In the first batch: there are more numbers than that, or one is not finite.
            Later such a list says nothing, and is counted.
    """
    rewards, unusable = [], 0
    rule = f"{FIELD} must tell for each rollout a list of finite numbers, one for each turn"
    if not hasattr(told, "__len__") or len(told) != len(step_ends):
        raise ValueError(f"{rule}, got {told!r:.80} for {len(step_ends)} rollouts.")
    for n, (of_rollout, ends, spans) in enumerate(zip(told, step_ends, turns, strict=True)):
        of_rollout = () if of_rollout is None else of_rollout
        try:
            numbers = [math.nan if one is None else float(one) for one in of_rollout]
        except (TypeError, ValueError):
            numbers = [math.inf]
        is_list = not isinstance(of_rollout, str | Mapping | Set)
        placed = _placed(numbers, ends, spans) if is_list else None
        if placed is None or any(map(math.isinf, numbers)):
            if is_first:
                raise ValueError(
                    f"{rule}, got {of_rollout!r:.80} for rollout {n} with {len(spans)} turns and "
                    f"{len(ends)} steps."
                )
            placed, unusable = [math.nan] * max(1, len(ends)), unusable + 1
        rewards.append(placed)
    return rewards, unusable


def _placed(numbers: list[float], ends: Sequence[int], turns: Sequence[Turn]) -> list[float] | None:
    """Return a number for each step, or one; None if there are too many."""
    if ends and len(numbers) == len(ends):
        return numbers
    if len(numbers) > len(turns):
        return None
    placed = [math.nan] * max(1, len(ends))
    for number, turn in zip(numbers, turns, strict=False):
        stop = turn.stop if turn.has_observation else turn.end
        # a turn without words has no step: its reward joins the step before it
        step = max([k for k, end in enumerate(ends) if end <= stop], default=0)
        if not math.isnan(number):
            placed[step] = number + (0.0 if math.isnan(placed[step]) else placed[step])
    return placed


def padded(rows: Sequence[Sequence[Any]], dtype: torch.dtype) -> Tensor:
    """Return rows as a tensor (b, T); 0 in padding."""
    return pad_sequence([torch.tensor(row, dtype=dtype) for row in rows], batch_first=True)


def log_turn_rewards(
    metrics: Any,
    rewards: Float[Tensor, "batch turn"],
    step_mask: Bool[Tensor, "batch step"],
    outcomes: Float[Tensor, " batch"],
) -> None:
    """Log the mean reward of a turn, the share of turns that have one, and that of the return.

    Rewards of steps and outcomes are those of this process's rollouts; NaN where none is told.
    """
    number = step_mask.sum(dim=1, keepdim=True).clamp(min=1)  # one turn may have no words
    exists = torch.arange(rewards.shape[1], device=rewards.device) < number
    known = exists & ~rewards.isnan()
    total = rewards.masked_fill(~known, 0.0).sum(dim=1).abs()
    share = total / (total + outcomes.nan_to_num().abs())
    told = {
        "turn_reward": rewards[known].tolist(),
        "turns_rewarded": known[exists].float().tolist(),
        "turn_return_share": share[share.isfinite()].tolist(),
    }
    for name, local in told.items():
        if values := gather_object(local):
            metrics[f"barl/{name}"].append(fmean(values))


# States


StateKey = Callable[[list[Step]], Hashable]
"""The steps before a state, of one rollout -> what stands for the state."""


def last_observation(steps: list[Step]) -> Hashable:
    """Return the text of the last observation, or all steps where none stands before the state.

    These are the anchor states of arXiv 2505.10978.
    """
    before = steps[-1] if steps else []
    heard = [m for m in before if isinstance(m, dict) and m.get("role") != "assistant"]
    return repr([message.get("content") for message in heard] or steps)


def numbers_of_states(steps: Sequence[list[Step]], state_key: StateKey | None) -> list[list[int]]:
    """Return numbers for the states in which each rollout's steps begin, or of its first state.

    Equal keys have equal numbers, on all processes.
    """
    key_of = state_key or last_observation
    return [
        [_number(key_of(of_rollout[:t])) for t in range(max(1, len(of_rollout)))]
        for of_rollout in steps
    ]


def _number(key: Hashable) -> int:
    text = repr(key).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=7).digest(), "big")


# Tasks of environments


def told_tasks(
    environments: Sequence[Any] | None, columns: Mapping[str, str], *, group_size: int, start: int
) -> dict[str, list[Any]]:
    """Return what environments say of their task after `reset`, by the name of the column.

    An environment may have `hypotheses`, `prior` and `solution`, as attributes or methods without
    arguments. They stand for the data's `columns`, by the name of the attribute. Each prompt has
    `group_size` of all processes' rollouts, of which this process's begin at `start`. A ValueError
    says that the environments of a prompt do not tell the same.
    """
    told = {}
    for name, column in columns.items():
        if not environments or not any(hasattr(one, name) for one in environments):
            continue
        values = [_asked(one, name) for one in environments]
        of_prompts: dict[int, Any] = {}
        for n, value in enumerate(values):
            value = list(value) if isinstance(value, list | tuple | range) else value
            if value is None:  # its reset raised
                continue
            if name != "solution" and not isinstance(value, list):
                raise ValueError(f"{name} of an environment must be a list, got {value!r:.60}.")
            of_prompt = of_prompts.setdefault((start + n) // group_size, value)
            if value != of_prompt:
                raise ValueError(
                    f"{name} of an environment must be equal for all rollouts of a prompt, got "
                    f"{of_prompt!r:.60} and {value!r:.60}: let reset draw from the row, such as "
                    "from a column `seed`."
                )
        told[column] = [of_prompts.get((start + n) // group_size) for n in range(len(values))]
    return told
