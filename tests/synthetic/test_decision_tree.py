"""The tree of the paper's proof: beliefs from posterior.py, and the Bayes-optimal policy, which a
textbook recursion over nodes, sets and single steps solves again.
"""

from fractions import Fraction
from functools import cache

import pytest

from barl_trl.synthetic.decision_tree import (
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
def test_policy_is_optimal_at_every_horizon_at_once(tree):
    fewest, value = fewest_steps(tree), bellman(tree)
    for horizon in range(fewest[-1] + 3):
        assert adaptive_return(fewest, horizon) == value(0, frozenset(tree.leaves), horizon)


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


def test_episodes_of_the_papers_example():
    assert adaptive_episode(DecisionTree(3, "parent"), truth=3) == (0, 1, 2, 1, 3)
    assert adaptive_episode(DecisionTree(3, "root"), truth=3) == (0, 1, 2, 0, 1, 3)


def test_policy_has_an_action_where_nothing_is_left_below():
    assert adaptive_action(DecisionTree(3, "root"), (0, 1, 2, 0, 1, 3, 0, 1)) == "left"
    assert adaptive_action(DecisionTree(3, "parent"), (0, 1, 2, 1, 3, 1)) == "back"
