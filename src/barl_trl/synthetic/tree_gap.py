r"""What adaptive and Markovian policies attain on the trees of [`DecisionTree`].

As in the paper, the action of a Markovian policy depends on the state, here the node, and on
nothing else, not even the time.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from .decision_tree import DecisionTree, adaptive_episode, adaptive_return, belief, fewest_steps

ACTIONS = ("left", "right", "back")
_PAPER_DEPTH = 3
"""The paper's example: four hypotheses, the leaves s2, s3, s5 and s6."""


def reset_return(num_leaves: int, passes: int) -> Fraction:
    r"""Compute the best return of a Markovian policy in k passes to a leaf: $1 - (1 - 1/N)^k$.

    A pass of a policy that sees only the node reaches leaf l with the same probability $q_l$
    whatever was tried before, $\sum_l q_l = 1$, so its return is $\frac1N \sum_l 1 - (1 - q_l)^k$.
    This is concave and symmetric in q: uniform q is best, which 1/2 at every node attains.

    >>> reset_return(4, passes=4)
    Fraction(175, 256)
    """
    return 1 - (1 - Fraction(1, num_leaves)) ** passes


def markovian_return(
    tree: DecisionTree, policy: Float[Tensor, "node action"], *, horizon: int
) -> Float[Tensor, ""]:
    """Compute the return of a policy that sees only the node, exact up to rounding.

    Args:
        tree: The tree.
        policy: Probabilities of `ACTIONS`; those of actions that a node lacks are not looked at.
        horizon: Number of steps.
    """
    edges = [
        (node, ACTIONS.index(action), target)
        for node, moves in enumerate(tree.moves)
        for action, target in moves.items()
    ]
    nodes, actions, targets = torch.tensor(edges).T
    chain = torch.zeros(len(policy), len(policy), dtype=policy.dtype)
    chain = chain.index_put((nodes, targets), policy[nodes, actions])
    unpaid = torch.ones(len(tree.leaves), len(policy), dtype=policy.dtype)
    unpaid[range(len(tree.leaves)), tree.leaves] = 0
    searching = torch.zeros_like(unpaid)  # a row for each hypothesis
    searching[:, 0] = 1
    for _ in range(horizon):
        searching = (searching @ chain) * unpaid
    return 1 - searching.sum(dim=-1).mean()


def best_markovian_policy(
    tree: DecisionTree, *, horizon: int, starts: int = 12
) -> Float[Tensor, "node action"]:
    """Find the best policy that sees only the node, by gradient ascent from random starts.

    Gradient ascent may miss the best one, so the [`markovian_return`] of the policy that it finds
    is a lower bound of the best return.
    """
    available = torch.tensor([[action in moves for action in ACTIONS] for moves in tree.moves])

    def success(logits: Tensor) -> Tensor:
        policy = logits.masked_fill(~available, -math.inf).softmax(dim=-1)
        return markovian_return(tree, policy, horizon=horizon)

    logits = best_logits(success, available.shape, starts=starts)
    return logits.masked_fill(~available, -math.inf).softmax(dim=-1)


def best_logits(
    success: Callable[[Tensor], Tensor], shape: Sequence[int], *, starts: int
) -> Tensor:
    """Find the logits of a policy with the greatest success, by gradient ascent; float64.

    Args:
        success: Maps logits to the exact probability of success.
        shape: Shape of the logits.
        starts: Number of random starts.
    """
    generator = torch.Generator().manual_seed(0)
    candidates = []
    for _ in range(starts):
        logits = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([logits], max_iter=200, line_search_fn="strong_wolfe")

        def closure(logits=logits, optimizer=optimizer):
            optimizer.zero_grad()
            loss = -success(logits)
            loss.backward()
            return loss

        optimizer.step(closure)
        candidates.append(logits.detach())
    return max(candidates, key=lambda logits: success(logits).item())


def results(depths: Iterable[int] = range(2, 7)) -> dict[str, Any]:
    """Compute every number of the table and figure of `barl reproduce tree`, for `json.dump`.

    Args:
        depths: Depths of the trees; each is solved with both ways of going back.

    Returns:
        `trees`, one entry per depth and way of going back; `examples`, one per way of going back:
        the tries of the Bayes-optimal policy on the paper's tree where the last leaf pays.
    """
    backs = ("root", "parent")
    return {
        "trees": [_tree_entry(DecisionTree(d, back)) for d in depths for back in backs],
        "examples": [_example(DecisionTree(_PAPER_DEPTH, back)) for back in backs],
    }


def _tree_entry(tree: DecisionTree) -> dict[str, Any]:
    fewest = fewest_steps(tree)
    leaves, horizon = len(fewest), fewest[-1]
    entry = {
        "depth": tree.depth,
        "back": tree.back,
        "leaves": leaves,
        "horizon": horizon,
        "mean_steps": sum(fewest) / leaves,
        "fewest_steps": fewest,
        "adaptive": float(adaptive_return(fewest, horizon)),
        "adaptive_one_step_less": float(adaptive_return(fewest, horizon - 1)),
        "single_pass_markovian": 1 / leaves,
        "deterministic_markovian": 1 / leaves,
    }
    if tree.back == "root" or tree.depth == 2:  # then the parent is the root
        exact = float(reset_return(leaves, leaves))
        return entry | {"stochastic_markovian": exact, "stochastic_markovian_is_exact": True}
    policy = best_markovian_policy(tree, horizon=horizon)
    attained = markovian_return(tree, policy, horizon=horizon).item()
    return entry | {"stochastic_markovian": attained, "stochastic_markovian_is_exact": False}


def _example(tree: DecisionTree) -> dict[str, Any]:
    truth = tree.leaves[-1]
    nodes = adaptive_episode(tree, truth)
    tries, begin = [], 0
    for end, node in enumerate(nodes):
        if node in tree.leaves:
            believed = belief(tree, nodes[: begin + 1], truth=truth)
            tries.append(
                {
                    "path": list(nodes[begin : end + 1]),
                    "steps": [begin + 1, end],
                    "belief": [believed[leaf] for leaf in tree.leaves],
                    "reward": int(node == truth),
                }
            )
            begin = end
    children = [[m["left"], m["right"]] if "left" in m else [] for m in tree.moves]
    return {"back": tree.back, "leaves": list(tree.leaves), "children": children, "tries": tries}


def table_rows(results: dict[str, Any]) -> list[dict[str, str]]:
    """Return the table as text, a row per tree: column -> cell."""
    return [
        {
            "depth": str(tree["depth"]),
            "leaves": str(tree["leaves"]),
            "back to": tree["back"],
            "steps needed": str(tree["horizon"]),
            "mean steps": f"{tree['mean_steps']:g}",
            "adaptive": f"{tree['adaptive']:g}",
            "one step less": str(Fraction(tree["adaptive_one_step_less"])),
            "single pass": str(Fraction(tree["single_pass_markovian"])),
            "Markovian": ("" if tree["stochastic_markovian_is_exact"] else "≥ ")
            + f"{tree['stochastic_markovian']:.3f}",
        }
        for tree in results["trees"]
    ]
