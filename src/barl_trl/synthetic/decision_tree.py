r"""The tree in the paper's proof that adaptive policies can do better (theorem thm_exp), solved.

The states are the nodes of a full binary tree with $N = 2^{d-1}$ leaves, numbered as in the paper's
figure: $s_0$ is the root, and at $d = 3$ the leaves are $s_2, s_3, s_5, s_6$. One step goes left or
right, or back: from a leaf to the root (the proof's reset), or from any node to its parent (the
trajectory $s_0 s_1 s_2 s_1 s_3$ in the paper's text). Hypothesis $M_l$ says that reaching leaf l
pays 1, which ends the episode; all are equally likely at first.

Before that step all rewards are 0, so a history is the nodes $s_0 \dots s_t$, and its belief is
uniform over the leaves that it has not tried: the [`~barl_trl.posterior.posterior`] at
`beta = inf`.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import torch

from ..posterior import posterior

History = tuple[int, ...]


@dataclass(frozen=True)
class DecisionTree:
    """The tree and its actions.

    Attributes:
        depth: Levels of nodes, at least 2.
        back: Where going back leads: `"root"`, from a leaf, or `"parent"`, from any node.
    """

    depth: int
    back: str = "root"

    def __post_init__(self):
        if self.depth < 2:
            raise ValueError(f"depth must be at least 2, got {self.depth}: 3 is the paper's tree.")
        if self.back not in ("root", "parent"):
            raise ValueError(f"back must be 'root' or 'parent', got {self.back!r}.")

    @cached_property
    def moves(self) -> list[dict[str, int]]:
        """For every node, the actions that it has and the node to which each leads."""
        moves: list[dict[str, int]] = []

        def grow(parent: int | None, levels: int) -> None:
            node = len(moves)
            children = {} if levels == 1 else {"left": node + 1, "right": node + 2 ** (levels - 1)}
            moves.append(children)
            for _ in tuple(children):  # nodes are numbered on the way down, the left half first
                grow(node, levels - 1)
            if self.back == "parent" and parent is not None:
                children["back"] = parent
            elif not children:
                children["back"] = 0

        grow(None, self.depth)
        return moves

    @cached_property
    def leaves(self) -> tuple[int, ...]:
        """The leaves from left to right; each is a hypothesis."""
        return tuple(node for node, moves in enumerate(self.moves) if "left" not in moves)

    def leaves_below(self, node: int) -> frozenset[int]:
        """Return the leaves of a node's subtree."""
        moves = self.moves[node]
        if "left" not in moves:
            return frozenset([node])
        return self.leaves_below(moves["left"]) | self.leaves_below(moves["right"])

    def untried(self, history: History) -> frozenset[int]:
        """Return the hypotheses that rewards of 0 along `history` leave: the belief's support."""
        return frozenset(self.leaves) - frozenset(history)


def belief(tree: DecisionTree, history: History, *, truth: int) -> dict[int, float]:
    r"""Return the posterior over the leaves after a history under the truth, def_uapi's $b(h_t)$.

    With $p_l(t)$, whether leaf l is among $s_0 \dots s_t$, the reward of reaching l first is the
    progress reward $p_l(t+1) - p_l(t)$ of eq. (def_r); `beta = inf` drops a hypothesis at the first
    reward that it did not predict.

    >>> belief(DecisionTree(2), (0, 1), truth=2)
    {1: 0.0, 2: 1.0}
    """
    hypotheses = [truth, *(leaf for leaf in tree.leaves if leaf != truth)]
    reached = torch.tensor([[node == leaf for leaf in hypotheses] for node in history])
    answer_logps = reached.double().cummax(dim=0).values.log()[None]
    final = posterior(answer_logps, beta=math.inf)[0, -1].tolist()
    return dict(sorted(zip(hypotheses, final, strict=True)))


def fewest_steps(tree: DecisionTree) -> list[int]:
    r"""Compute the fewest steps in which any policy can try n leaves, as entry n - 1.

    The Bayes-optimal policy needs the fewest for every n. Up to depth 4 the tests find the same by
    dynamic programming over beliefs. With C the untried leaves, the value of the epistemic POMDP is

    $$V(s, C, \tau) = \max_{s'} \begin{cases} V(s', C, \tau - 1) & s' \notin C \\
    \frac{1}{|C|} + (1 - \frac{1}{|C|}) V(s', C \setminus s', \tau - 1) & s' \in C \end{cases}$$

    so that $|C| V$ counts the leaves of C that can be reached in $\tau$ steps.
    """
    return sorted(len(adaptive_episode(tree, truth)) - 1 for truth in tree.leaves)


def adaptive_return(fewest: list[int], horizon: int) -> Fraction:
    """Return the Bayes-optimal return in any number of steps, from a tree's [`fewest_steps`]."""
    return Fraction(bisect_right(fewest, horizon), len(fewest))


def adaptive_action(tree: DecisionTree, history: History) -> str:
    """Return the Bayes-optimal action: down to untried leaves, and back where there are none.

    This policy tries the n-th leaf after the fewest steps for every n, so no horizon has a better
    policy.
    """
    untried = tree.untried(history)
    for action, node in tree.moves[history[-1]].items():
        if action == "back" or untried & tree.leaves_below(node):
            return action
    return "left"  # an inner node whose leaves are all tried, which this policy never reaches


def adaptive_episode(tree: DecisionTree, truth: int) -> History:
    """Return the nodes that the Bayes-optimal policy passes until the reward."""
    history = (0,)
    while history[-1] != truth:
        history = (*history, tree.moves[history[-1]][adaptive_action(tree, history)])
    return history
