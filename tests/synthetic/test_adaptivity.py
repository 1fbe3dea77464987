"""Definitions 1 and 2 of the paper, and which policies meet them on which histories."""

from itertools import product

import pytest

from barl_trl.synthetic.decision_tree import DecisionTree, adaptive_action

from .adaptivity import (
    exhibits_reflective_exploration,
    is_markovian,
    is_strictly_uncertainty_adaptive,
    is_uncertainty_adaptive,
    tabulate,
)

PROOF, FIGURE = DecisionTree(3, "root"), DecisionTree(3, "parent")
TREES = [(DecisionTree(2), 3), (PROOF, 11), (FIGURE, 10)]
COIN = {"left": 0.5, "right": 0.5}


def bayes_optimal(tree):
    return lambda history: {adaptive_action(tree, history): 1}


def clock(tries):
    """Goes to these leaves of the proof's tree in turn, a function of node and time alone."""
    plan = [action for turns in tries for action in (*turns, "back")]
    return lambda history: {plan[(len(history) - 1) % len(plan)]: 1}


IN_TURN = clock(list(product(("left", "right"), repeat=2)))


def judged(policy, tree):
    """Markovian, uncertainty-adaptive, strictly so, reflective."""
    return (
        is_markovian(policy),
        is_uncertainty_adaptive(tree, policy),
        is_strictly_uncertainty_adaptive(tree, policy),
        exhibits_reflective_exploration(policy),
    )


# The histories


def test_histories_are_those_in_which_the_episode_goes_on():
    tree = DecisionTree(2)
    own = tabulate(tree, bayes_optimal(tree), horizon=3)
    # the third step pays if the first did not
    assert list(own) == [(0,), (0, 1), (0, 1, 0)]
    every = tabulate(tree, bayes_optimal(tree), horizon=4, off_policy=True)
    assert set(every) - set(own) == {(0, 2), (0, 2, 0), (0, 1, 0, 1), (0, 2, 0, 2)}


# The Bayes-optimal policy


@pytest.mark.parametrize(("tree", "horizon"), TREES)
def test_bayes_optimal_policy_is_strictly_uncertainty_adaptive_and_reflective(tree, horizon):
    policy = tabulate(tree, bayes_optimal(tree), horizon=horizon)
    assert judged(policy, tree) == (False, True, True, True)


@pytest.mark.parametrize(("tree", "horizon"), [(PROOF, 11), (FIGURE, 8)])
def test_off_its_way_rewards_and_node_do_not_tell_its_actions(tree, horizon):
    """At the root after six steps without reward, s2 and s3 may be tried, or s2 and s5."""
    policy = tabulate(tree, bayes_optimal(tree), horizon=horizon, off_policy=True)
    assert judged(policy, tree) == (False, True, True, False)


def test_only_strictly_adaptive_policies_attain_return_1():
    """Theorem thm_exp at depth 2: every deterministic policy of histories, three steps."""
    tree = DecisionTree(2)
    returns = {}
    for first, again_1, again_2 in product(("left", "right"), repeat=3):
        turn = {(0,): first, (0, 1, 0): again_1, (0, 2, 0): again_2}
        policy = tabulate(tree, lambda h, t=turn: {t.get(h, "back"): 1}, horizon=3)
        reached = {tree.moves[h[-1]][action] for h, actions in policy.items() for action in actions}
        found = len(reached & set(tree.leaves)) / 2
        returns.setdefault(found, set()).add(is_strictly_uncertainty_adaptive(tree, policy))
    assert returns == {1.0: {True}, 0.5: {False}}


# Markovian policies


@pytest.mark.parametrize(("tree", "horizon"), TREES)
def test_markovian_policy_is_adaptive_in_name_only(tree, horizon):
    for inner in (COIN, {"right": 1}):
        table = [inner if "left" in moves else {"back": 1} for moves in tree.moves]
        policy = tabulate(tree, lambda h, table=table: table[h[-1]], horizon=min(horizon, 8))
        assert judged(policy, tree) == (True, True, False, False)


# Policies of node and belief, of node and time


def test_a_clock_that_ignores_rewards_is_not_uncertainty_adaptive():
    """But definition 2 lets it pass: rewards that are all 0 are a clock."""
    policy = tabulate(PROOF, IN_TURN, horizon=11, off_policy=True)
    assert judged(policy, PROOF) == (False, False, False, True)


def test_a_clock_on_its_own_way_is_the_bayes_optimal_policy():
    """No reward but 0 comes before the end, so its order of leaves can be fixed beforehand."""
    own = tabulate(PROOF, IN_TURN, horizon=11)
    assert own == tabulate(PROOF, bayes_optimal(PROOF), horizon=11)


def test_a_clock_that_tries_a_leaf_twice_is_not_uncertainty_adaptive_on_its_own_way():
    twice = clock([("left", "left"), ("left", "left"), ("right", "left"), ("right", "right")])
    policy = tabulate(PROOF, twice, horizon=11)
    assert judged(policy, PROOF) == (False, False, False, True)
