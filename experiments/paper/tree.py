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

import argparse
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from matplotlib.patches import FancyArrowPatch
from torch import Tensor

from barl_trl.evaluation.results import text_table
from barl_trl.posterior import posterior

from ..tools import write_json
from .common import plt

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


# Markovian policies

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
    """Compute every number of the table and figure of `tree.png`.

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


# The figure

_BACK = {"root": "back to the root", "parent": "back to the parent"}
_GREY, _BLACK = "0.65", "black"
_NODE_RADIUS = 12  # points


def draw(results: dict[str, Any], png: Path) -> None:
    """Draw a row of trees for each way of going back, and the returns by depth beside them.

    Each tree shows the belief before the next leaf is tried, and the path to that leaf.
    """
    examples = results["examples"]
    columns = max(len(example["tries"]) for example in examples)
    widths = 2.75 * columns, 4.2
    figure = plt.figure(figsize=(sum(widths), 3.1 * len(examples)), layout="constrained")
    trees, chart = figure.subfigures(1, 2, width_ratios=widths, squeeze=False)[0]
    strips = trees.subfigures(len(examples), 1, squeeze=False)[:, 0]
    for row, example in zip(strips, examples, strict=True):
        row.suptitle(f"Going {_BACK[example['back']]}", fontsize=11, fontweight="bold")
        for axis, attempt in zip(row.subplots(1, columns), example["tries"], strict=False):
            _draw_tree(axis, example, attempt)
    trees.supxlabel(
        "The numbers are the belief: the probability that this leaf pays. Crossed out: excluded. "
        "Thick arrows lead to the next leaf, dashed ones back.",
        fontsize=9,
    )
    _draw_returns(chart.subplots(), results["trees"])
    figure.savefig(png, dpi=120)
    plt.close(figure)


def _draw_tree(axis, example, attempt):
    places = _places(example["children"], example["leaves"])
    for node, children in enumerate(example["children"]):
        for child in children:
            axis.plot(*zip(places[node], places[child], strict=True), color=_GREY, lw=1, zorder=1)
    firsts = {children[0] for children in example["children"] if children}
    for start, end in pairwise(attempt["path"]):
        down = end in example["children"][start]
        bend = 0 if down else -0.35 if start in firsts else 0.35  # away from the sibling's edge
        axis.add_patch(
            FancyArrowPatch(
                places[start],
                places[end],
                arrowstyle="-|>",
                mutation_scale=13,
                shrinkA=_NODE_RADIUS,
                shrinkB=_NODE_RADIUS,
                color=_BLACK,
                linewidth=2.2 if down else 1.2,
                linestyle="-" if down else (0, (3, 2)),
                connectionstyle=f"arc3,rad={bend}",
                zorder=2,
            )
        )
    believed = dict(zip(example["leaves"], attempt["belief"], strict=True))
    for node, (x, y) in enumerate(places):
        _draw_node(axis, x, y, f"$s_{{{node}}}$", believed.get(node))
    first, last = attempt["steps"]
    steps = f"step {first}" if first == last else f"steps {first}–{last}"
    axis.set_title(f"{steps}: reward {attempt['reward']}", fontsize=10)
    axis.set(xlim=(-0.6, len(example["leaves"]) - 0.4), ylim=(-0.65, places[0][1] + 0.3))
    axis.set_axis_off()


def _places(children, leaves):
    """Return the position of each node: leaves side by side, others above their children."""
    places = [(0.0, 0.0)] * len(children)
    for node in reversed(range(len(children))):
        if children[node]:
            (left, y), (right, _) = (places[child] for child in children[node])
            places[node] = ((left + right) / 2, y + 1)
        else:
            places[node] = (float(leaves.index(node)), 0.0)
    return places


def _draw_node(axis, x, y, name, belief):
    """Draw a node. A leaf is shaded by its belief, written below it; belief 0 is crossed out."""
    shade = str(1 - 0.75 * (belief or 0))
    axis.plot(x, y, "o", ms=2 * _NODE_RADIUS - 3, mfc=shade, mec=_BLACK, mew=1, zorder=3)
    color = "white" if (belief or 0) > 0.6 else _BLACK
    axis.text(x, y, name, ha="center", va="center", fontsize=10, color=color, zorder=4)
    if belief is not None:
        text = str(Fraction(belief).limit_denominator(1000))
        axis.text(x, y - 0.48, text, ha="center", va="center", fontsize=10)
    if belief == 0:
        axis.plot(x, y, "x", ms=2 * _NODE_RADIUS + 2, color="0.6", mew=1.6, zorder=3)


def _draw_returns(axis, trees):
    stochastic = "stochastic Markovian,\n"
    curves = [
        ("adaptive, either way", "root", "adaptive", "o-"),
        (stochastic + _BACK["root"], "root", "stochastic_markovian", "s--"),
        (f"{stochastic}{_BACK['parent']} (best found)", "parent", "stochastic_markovian", "^-."),
        ("Markovian, single pass\nor deterministic", "root", "single_pass_markovian", "v:"),
    ]
    for label, back, name, style in curves:
        points = [(tree["depth"], tree[name]) for tree in trees if tree["back"] == back]
        axis.plot(*zip(*points, strict=True), style, color=_BLACK, mfc="white", label=label)
    axis.set(xlabel="depth of the tree", ylabel="return", ylim=(0, 1.05))
    axis.set_xticks(sorted({tree["depth"] for tree in trees}))
    axis.set_title("Return within the steps\nthat the adaptive policy needs", fontsize=10)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False)


def main(argv: list[str] | None = None) -> None:
    """Solve the decision trees, write `results.json` and `tree.png`, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=6, help="largest depth, from 2")
    parser.add_argument("--output_dir", type=Path, default=Path("outputs/tree"))
    options = parser.parse_args(argv)
    found = results(range(2, options.most + 1))
    write_json(options.output_dir / "results.json", found)
    draw(found, options.output_dir / "tree.png")
    title = "Return within the steps that the adaptive policy needs"
    print(text_table(title, table_rows(found)))


if __name__ == "__main__":
    main()
