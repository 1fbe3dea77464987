"""The values beside which the policies of the didactic example stand, computed."""

from fractions import Fraction
from functools import cache
from itertools import product

import torch
from torch import Tensor

from barl_trl.synthetic.tree_gap import best_logits
from barl_trl.synthetic.triplets import ALL_TRIPLETS, NUM_ACTIONS, NUM_STEPS, REPEATS

Triplet = tuple[int, ...]
Suffix = tuple[int, ...]

_SUFFIXES: list[Suffix] = [s for n in range(3) for s in product(range(NUM_ACTIONS), repeat=n)]
"""What matters of the actions so far: the last two, at first fewer."""


def references() -> dict[str, float]:
    adaptive_27, adaptive_3 = novel_sequence(), shortest_sequence(REPEATS)
    return {
        "uniform policy, a repeat": float(uniform_success(REPEATS[0])),
        "uniform policy, mean of 27": float(
            sum(map(uniform_success, ALL_TRIPLETS)) / len(ALL_TRIPLETS)
        ),
        "best Markovian policy, 3 hypotheses": _best_success(memory=0),
        "best policy that sees the last action, 3 hypotheses": _best_success(memory=1),
        "best policy that sees the last 2 actions, 3 hypotheses": _best_success(memory=2),
        "optimal adaptive policy": 1.0,
        "its steps, 27 hypotheses": len(adaptive_27),
        "its mean steps, 27 hypotheses": mean_steps(adaptive_27, ALL_TRIPLETS),
        "its steps, 3 hypotheses": len(adaptive_3),
        "its mean steps, 3 hypotheses": mean_steps(adaptive_3, REPEATS),
    }


def uniform_success(triplet: Triplet, steps: int = NUM_STEPS) -> Fraction:
    """Return the probability that uniformly random actions contain a triplet."""
    share = Fraction(1, NUM_ACTIONS)
    unsolved = {(): Fraction(1)}
    for _ in range(steps):
        following: dict[Suffix, Fraction] = {}
        for suffix, mass in unsolved.items():
            for action in range(NUM_ACTIONS):
                actions = (*suffix, action)
                if actions != triplet:
                    last = actions[-2:]
                    following[last] = following.get(last, Fraction(0)) + mass * share
        unsolved = following
    return 1 - sum(unsolved.values(), Fraction(0))


def _best_success(*, memory: int, starts: int = 8) -> float:
    """Find the success of the best policy that sees the last actions only, over 000, 111, 222.

    With `memory=0` it is Markovian: the state of the task, the prompt, does not change.

    Args:
        memory: Number of last actions that the policy sees, 0 to 2.
        starts: Number of random starts.
    """
    contexts = sorted({suffix[len(suffix) - memory :] if memory else () for suffix in _SUFFIXES})

    def success(logits: Tensor) -> Tensor:
        return _success(logits.softmax(dim=-1), contexts, memory)

    return success(best_logits(success, (len(contexts), NUM_ACTIONS), starts=starts)).item()


def _success(policy: Tensor, contexts: list[Suffix], memory: int) -> Tensor:
    """Return the mean success over the repeats, by the unsolved mass of each suffix."""
    rows = [contexts.index(s[len(s) - memory :] if memory else ()) for s in _SUFFIXES]
    moves = torch.zeros(len(REPEATS), NUM_ACTIONS, len(_SUFFIXES), len(_SUFFIXES)).double()
    for (i, suffix), action, (h, triplet) in product(
        enumerate(_SUFFIXES), range(NUM_ACTIONS), enumerate(REPEATS)
    ):
        actions = (*suffix, action)
        if actions != triplet:
            moves[h, action, i, _SUFFIXES.index(actions[-2:])] = 1
    steps = torch.einsum("haij,ia->hij", moves, policy[rows])
    unsolved = torch.zeros(len(REPEATS), 1, len(_SUFFIXES)).double()
    unsolved[:, 0, 0] = 1
    for _ in range(NUM_STEPS):
        unsolved = unsolved @ steps
    return 1 - unsolved.sum(dim=(1, 2)).mean()


def novel_sequence() -> list[int]:
    """Return a sequence that completes a new triplet at every step from the third (de Bruijn).

    No sequence can do better, for a step completes one triplet. The greedy rule, the largest action
    whose triplet is new, finds one.
    """
    actions = [0, 0]
    seen: set[Triplet] = set()
    while True:
        new = [a for a in range(NUM_ACTIONS) if (*actions[-2:], a) not in seen]
        if not new:
            return actions
        actions.append(max(new))
        seen.add(tuple(actions[-3:]))


def shortest_sequence(triplets: tuple[Triplet, ...]) -> list[int]:
    """Find the sequence that settles hypotheses with the fewest steps on average.

    Nothing is learned before the reward comes, so the adaptive policy is a sequence of actions that
    stops at success: dynamic programming over the triplets that are left and the last two actions.
    """

    @cache
    def best(left: frozenset[Triplet], suffix: Suffix, steps: int) -> tuple[float, tuple[int, ...]]:
        if not left:
            return 0, ()
        if steps == 0:
            return float("inf"), ()
        options = []
        for action in range(NUM_ACTIONS):
            actions = (*suffix, action)
            cost, following = best(left - {actions}, actions[-2:], steps - 1)
            options.append((len(left) + cost, (action, *following)))
        return min(options)

    return list(best(frozenset(triplets), (), 3 * len(triplets))[1])


def mean_steps(actions: list[int], triplets: tuple[Triplet, ...]) -> float:
    """Average the steps until a triplet is complete, over equally likely ones."""
    steps = [
        next(n for n in range(3, len(actions) + 1) if tuple(actions[n - 3 : n]) == triplet)
        for triplet in triplets
    ]
    return sum(steps) / len(steps)
