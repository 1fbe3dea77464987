"""The tree of the paper's proof: beliefs from posterior.py, and the Bayes-optimal policy, which a
textbook recursion over nodes, sets and single steps solves again.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import pytest

from experiments.tree.decision_tree import (
    DecisionTree,
    adaptive_action,
    adaptive_episode,
    adaptive_return,
    belief,
    fewest_steps,
)

from .adaptivity import tabulate

BACKS = ("root", "parent")
SMALL = [DecisionTree(depth, back) for depth in (2, 3, 4) for back in BACKS]
DEEPER = [DecisionTree(5, back) for back in BACKS]
DEEPEST = [
    pytest.param(DecisionTree(6, back), marks=pytest.mark.slow, id=f"6-{back}") for back in BACKS
]


def bellman(tree):
    """The epistemic POMDP's value by its definition: one step at a time, beliefs as sets."""

    @cache
    def value(node, consistent, steps_left):
        if steps_left == 0:
            return Fraction(0)
        options = []
        for target in tree.moves[node].values():
            paid = Fraction(target in consistent, len(consistent))
            rest = consistent - {target}
            future = value(target, rest, steps_left - 1) if rest else Fraction(0)
            options.append(paid + (1 - paid) * future)
        return max(options)

    return value


Shape = int | tuple["Shape", "Shape"]
"""What a belief says of a subtree: a leaf is 1 if untried, else 0; a tried subtree is 0; the halves
are in a fixed order, for what is the same up to a symmetry of the tree has the same value."""


def solved(tree: DecisionTree) -> list[int]:
    """The fewest steps in which n leaves can be tried, as entry n - 1: `bellman` for deep trees.

    Nothing is learned between leaves: a decision is which untried leaf comes next, by the shortest
    way. Layer n holds the states in which n leaves are tried, up to symmetry, and the fewest steps
    to each.
    """
    full: Shape = 1
    for _ in range(tree.depth - 1):
        full = (full, full)
    layer = dict.fromkeys(_ways_to_leaf(full), tree.depth - 1)
    fewest = []
    while layer:
        fewest.append(min(layer.values()))
        following: dict[tuple[Shape, ...], int] = {}
        for siblings, steps in layer.items():
            for state, cost in _next_leaves(siblings, tree):
                following[state] = min(steps + cost, following.get(state, steps + cost))
        layer = following
    return fewest


def _next_leaves(
    siblings: tuple[Shape, ...], tree: DecisionTree
) -> Iterator[tuple[tuple[Shape, ...], int]]:
    """The leaves that can follow one just tried, as siblings on the way up, and the steps."""
    below: Shape = 0
    for level, sibling in enumerate(siblings):
        if tree.back == "parent":
            for way in _ways_to_leaf(sibling):
                yield (*way, below, *siblings[level + 1 :]), 2 * (level + 1)
        below = _join(below, sibling)
    if tree.back == "root":
        for way in _ways_to_leaf(below):
            yield way, tree.depth


@cache
def _ways_to_leaf(shape: Shape) -> list[tuple[Shape, ...]]:
    """A subtree's untried leaves up to symmetry, each as the siblings on its way up."""
    if isinstance(shape, int):
        return [()] if shape else []
    left, right = shape
    return [(*way, other) for node, other in {shape, (right, left)} for way in _ways_to_leaf(node)]


@cache
def _join(a: Shape, b: Shape) -> Shape:
    return 0 if a == b == 0 else (a, b) if repr(a) <= repr(b) else (b, a)


# The tree


def test_nodes_are_numbered_as_in_the_paper():
    tree = DecisionTree(3, back="parent")
    assert tree.leaves == (2, 3, 5, 6)
    assert tree.moves == [
        {"left": 1, "right": 4},
        {"left": 2, "right": 3, "back": 0},
        {"back": 1},
        {"back": 1},
        {"left": 5, "right": 6, "back": 0},
        {"back": 4},
        {"back": 4},
    ]


def test_the_proofs_reset_is_an_action_of_leaves_and_leads_to_the_root():
    moves = DecisionTree(3, back="root").moves
    assert [targets.get("back") for targets in moves] == [None, None, 0, 0, None, 0, 0]


@pytest.mark.parametrize("depth", range(2, 7))
def test_depth_counts_levels(depth):
    tree = DecisionTree(depth)
    assert len(tree.leaves) == 2 ** (depth - 1)
    assert tree.leaves_below(0) == set(tree.leaves)
    assert len(tree.moves) == 2**depth - 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1,), "depth must be at least 2, got 1: 3 is the paper's tree"),
        ((3, "up"), "back must be 'root' or 'parent', got 'up'"),
    ],
)
def test_other_trees_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        DecisionTree(*arguments)


# Beliefs


@pytest.mark.parametrize(
    ("tree", "horizon"),
    [
        (DecisionTree(2), 5),
        (DecisionTree(3), 11),
        (DecisionTree(3, "parent"), 7),
        (DecisionTree(4), 7),
    ],
)
def test_posterior_is_uniform_over_the_untried_leaves_at_every_history(tree, horizon):
    histories = tabulate(tree, lambda history: {}, horizon=horizon, off_policy=True)
    assert any(len(tree.untried(history)) < len(tree.leaves) for history in histories)
    for history in histories:
        untried = tree.untried(history)
        expected = {leaf: (leaf in untried) / len(untried) for leaf in tree.leaves}
        # it does not matter which of the untried leaves is the true one
        for truth in (min(untried), max(untried)):
            assert belief(tree, history, truth=truth) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("tree", SMALL, ids=str)
def test_reward_identifies_the_truth(tree):
    for truth in tree.leaves:
        believed = belief(tree, adaptive_episode(tree, truth), truth=truth)
        assert believed == {leaf: float(leaf == truth) for leaf in tree.leaves}


# The optimum


@pytest.mark.parametrize("tree", SMALL, ids=str)
def test_layers_agree_with_the_textbook_recursion_at_every_horizon(tree):
    fewest, value = solved(tree), bellman(tree)
    for horizon in range(fewest[-1] + 3):
        assert adaptive_return(fewest, horizon) == value(0, frozenset(tree.leaves), horizon)


@pytest.mark.parametrize("tree", [*SMALL, *DEEPER, *DEEPEST], ids=str)
def test_policy_is_optimal_at_every_horizon_at_once(tree):
    assert fewest_steps(tree) == solved(tree)


@pytest.mark.parametrize("depth", range(2, 6))
def test_steps_with_the_proofs_reset(depth):
    """d - 1 steps to the first leaf and d to each other: back, and down again."""
    leaves = 2 ** (depth - 1)
    assert fewest_steps(DecisionTree(depth, "root")) == [
        n * depth - 1 for n in range(1, leaves + 1)
    ]


@pytest.mark.parametrize("depth", range(2, 6))
def test_steps_when_going_back_to_the_parent(depth):
    """Every edge down and up, without the way up from the last leaf."""
    edges = 2**depth - 2
    assert fewest_steps(DecisionTree(depth, "parent"))[-1] == 2 * edges - (depth - 1)


@pytest.mark.parametrize(
    ("back", "worst", "mean"),
    [("root", [3, 11, 31, 79], [2, 6.5, 17, 41.5]), ("parent", [3, 10, 25, 56], [2, 6, 14, 30])],
)
def test_steps_in_numbers(back, worst, mean):
    fewest = [fewest_steps(DecisionTree(depth, back)) for depth in range(2, 6)]
    assert [steps[-1] for steps in fewest] == worst
    assert [sum(steps) / len(steps) for steps in fewest] == mean


@pytest.mark.parametrize("tree", [*SMALL, *DEEPER], ids=str)
def test_one_step_less_costs_one_hypothesis(tree):
    fewest = fewest_steps(tree)
    leaves = len(tree.leaves)
    assert adaptive_return(fewest, fewest[-1]) == 1
    assert adaptive_return(fewest, fewest[-1] - 1) == Fraction(leaves - 1, leaves)
    assert adaptive_return(fewest, tree.depth - 1) == Fraction(1, leaves)
    assert adaptive_return(fewest, tree.depth - 2) == 0


def test_episodes_of_the_papers_example():
    assert adaptive_episode(DecisionTree(3, "parent"), truth=3) == (0, 1, 2, 1, 3)
    assert adaptive_episode(DecisionTree(3, "root"), truth=3) == (0, 1, 2, 0, 1, 3)


def test_policy_has_an_action_where_nothing_is_left_below():
    assert adaptive_action(DecisionTree(3, "root"), (0, 1, 2, 0, 1, 3, 0, 1)) == "left"
    assert adaptive_action(DecisionTree(3, "parent"), (0, 1, 2, 1, 3, 1)) == "back"
